"""`murmurec config`: show the settings, with secrets masked."""

from __future__ import annotations

import json

from stream_app.cli.commands import Commands
from stream_app.cli.options import Cluster, JsonOption
from stream_app.cli.output import print_json, table

app = Commands(help="Show the settings. Example: murmurec config show")


@app.command()
def show(
    cluster: Cluster,
    as_json: JsonOption = False,
) -> None:
    """Show the effective settings; flags override environment, file and defaults.

    Example: murmurec config show --json
    """
    settings = cluster.settings()
    shown = settings.shown()
    if as_json:
        print_json(shown, indent=2)
        return
    fields = type(settings).model_fields
    rows = [
        (
            name,
            value if isinstance(value, str) else json.dumps(value),
            fields[name].description or "",
        )
        for name, value in shown.items()
    ]
    table(("setting", "value", "meaning"), rows)

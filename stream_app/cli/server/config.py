"""`murmurec config`: show the settings, with secrets masked."""

from __future__ import annotations

import json
from typing import Any

from stream_app.cli.commands import Commands
from stream_app.cli.options import Cluster, JsonOption
from stream_app.cli.output import print_json, table
from stream_app.settings import place

app = Commands(help="Show the settings. Example: murmurec config show")


@app.command()
def show(
    cluster: Cluster,
    as_json: JsonOption = False,
) -> None:
    """Show the effective settings by the tables of the file; flags override environment, file and
    defaults.

    Example: murmurec config show --json
    """
    settings = cluster.settings()
    shown = settings.shown()
    if as_json:
        tables: dict[str, dict[str, Any]] = {}
        for name, value in shown.items():
            group, key = place(name)
            tables.setdefault(group, {})[key] = value
        print_json(tables, indent=2)
        return
    fields = type(settings).model_fields
    rows = [
        (
            "[{}] {}".format(*place(name)),
            value if isinstance(value, str) else json.dumps(value),
            fields[name].description or "",
        )
        for name, value in shown.items()
    ]
    table(("setting", "value", "meaning"), rows)

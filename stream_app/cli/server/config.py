"""`murmurec config`: show the settings, with secrets masked."""

from __future__ import annotations

import json

import typer

from stream_app.cli.options import (
    BootstrapOption,
    ConfigOption,
    JsonOption,
    KafkaOption,
    PrefixOption,
    settings_from,
)
from stream_app.cli.output import print_json, table

app = typer.Typer(no_args_is_help=True, help="Show the settings. Example: murmurec config show")


@app.callback()
def _group() -> None:
    pass


@app.command()
def show(
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    prefix: PrefixOption = None,
    kafka: KafkaOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the effective settings; flags override environment, file and defaults.

    Example: murmurec config show --json
    """
    settings = settings_from(config, bootstrap, prefix, kafka)
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

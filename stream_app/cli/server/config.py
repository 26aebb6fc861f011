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
        typer.echo(json.dumps(shown, indent=2))
        return
    fields = type(settings).model_fields
    width = max(map(len, shown))
    for name, value in shown.items():
        text = value if isinstance(value, str) else json.dumps(value)
        typer.echo(f"{name:{width}}  {text:24}  {fields[name].description}")

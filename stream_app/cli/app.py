"""The tree of commands: the module of each, by party, in the order in which a newcomer needs them.

A command is a function of the command's name in its module; a group of commands is a module with a
typer `app`. The modules are imported for `murmurec --help`, so they import heavy packages only
inside functions (`tests/test_architecture.py`).
"""

from __future__ import annotations

from importlib import import_module
from typing import Annotated

import typer

from stream_app import __version__

# Panel of the help -> (command, module under `stream_app.cli`).
COMMANDS = {
    "Start here": (("demo", "demo"),),
    "Device": (
        ("publish", "device.publish"),
        ("replay", "device.replay"),
        ("profiles", "device.profiles"),
        ("budget", "device.budget"),
        ("items", "device.items"),
    ),
    "Server": (
        ("worker", "server.worker"),
        ("topics", "server.topics"),
        ("state", "server.state"),
        ("forget", "server.forget"),
        ("broker", "server.broker"),
        ("config", "server.config"),
    ),
    "Reader": (("ask", "reader.ask"),),
    "Research": (
        ("evaluate", "research.evaluate"),
        ("tradeoff", "research.tradeoff"),
        ("certify", "research.certify"),
    ),
}

app = typer.Typer(
    name="murmurec",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="A private stream recommender on Kafka: ratings are sanitized on the device, learned in "
    "sketches, and the privacy claims are attacked in the open.",
    epilog="Start here:  murmurec demo      Exit codes: 0 done, 1 refused or failed, 2 wrong usage",
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"murmurec {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    pass


def _add(panel: str, name: str, path: str) -> None:
    """Add one row of the table to the tree."""
    module = import_module(f"stream_app.cli.{path}")
    group = getattr(module, "app", None)
    if isinstance(group, typer.Typer):
        app.add_typer(group, name=name, rich_help_panel=panel)
    else:
        app.command(name, rich_help_panel=panel)(getattr(module, name))


for _panel, _rows in COMMANDS.items():
    for _name, _path in _rows:
        _add(_panel, _name, _path)

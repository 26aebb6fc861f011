"""The tree of sub-commands: what there is, in the order in which a newcomer needs it."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Annotated

import typer

from stream_app import __version__

app = typer.Typer(
    name="murmurec",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="A private stream recommender on Kafka: ratings are sanitized on the device, learned in "
    "sketches, and the privacy claims are attacked in the open.",
    epilog="Start here:  murmurec demo      Exit codes: 0 done, 1 refused or failed, 2 wrong usage",
)

# Functions are commands; a module that holds an `app` is a group of commands. A part that is not
# installed (a device has no worker) is simply not there.
_COMMANDS = (
    *("demo", "publish", "replay", "worker", "ask", "forget"),
    *("evaluate", "tradeoff", "certify"),
)
_GROUPS = ("budget", "profiles", "items", "state", "broker", "topics", "config")


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


for _name in _COMMANDS:
    if find_spec(f"stream_app.cli.{_name}"):
        app.command(_name)(getattr(import_module(f"stream_app.cli.{_name}"), _name))
for _name in _GROUPS:
    if find_spec(f"stream_app.cli.{_name}"):
        app.add_typer(import_module(f"stream_app.cli.{_name}").app, name=_name)

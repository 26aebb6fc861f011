"""The tree of commands: the module of each, by party, in the order in which a newcomer needs them.

A command is a function of the command's name in its module; a group of commands is a module with a
typer `app`. The modules are imported for `murmurec --help`, so they import heavy packages only
inside functions (`tests/test_architecture.py`).
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from murmurec.common import research
from stream_app import __version__
from stream_app.cli.commands import Commands
from stream_app.errors import UserError

# Panel of the help, which is a task -> (command, module under `stream_app.cli`; None: of its name,
# in `research`); what a newcomer runs first comes first.
COMMANDS: dict[str, tuple[tuple[str, str | None], ...]] = {
    "Start": (
        ("demo", "demo"),
        ("evaluate", "research.evaluate"),
        ("broker", "server.broker"),
        ("topics", "server.topic_commands"),
        ("worker", "server.worker"),
        ("gateway", "server.gateway"),
        ("publish", "device.publish"),
        ("ask", "reader.ask"),
    ),
    "Serve": (
        ("edge", "server.edge"),
        ("items", "device.items"),
    ),
    "Device": (
        ("device", "device.enrolling"),
        ("recommend", "device.recommend"),
        ("replay", "device.replay"),
    ),
    "Campaigns": (
        ("aggregate", "aggregator.party_commands"),
        ("rounds", "aggregator.round_commands"),
    ),
    "Operate": (
        ("doctor", "server.doctor"),
        ("config", "server.config"),
        ("acl", "server.acl"),
        ("state", "server.state"),
        ("forget", "server.forget_device"),
    ),
    "Check": (
        ("certify", "research.certify"),
        ("audit", "reader.audit"),
        ("experiment", None),
        ("reproduce", None),
    ),
}

# The role at Kafka of each party's commands (`kafka/acls.py`), and of those that are another's.
_ROLES = {"device": "device", "reader": "reader", "aggregator": "aggregator", "server": "operator"}
_OTHERS = {
    "worker": "worker",
    "gateway": "gateway",
    "edge": "device",
    "items": "editor",
    "rounds": "operator",
    "audit": "auditor",
}


def role_of(command: str) -> str:
    """Return whose rights a command needs; empty where it is no party's."""
    modules = {name: module or "" for rows in COMMANDS.values() for name, module in rows}
    party = modules.get(command, "").partition(".")[0]
    return _OTHERS.get(command) or _ROLES.get(party, "")


# Boxes and colours on a terminal, plain text in a pipe.
_STYLE: dict[str, Any] = {
    "pretty_exceptions_enable": False,
    "rich_markup_mode": "rich" if sys.stdout.isatty() else None,
    "context_settings": {"help_option_names": ["-h", "--help"], "max_content_width": 100},
}


class Tree(TyperGroup):
    """The commands in the order of the table, on a terminal and in a pipe."""

    def list_commands(self, _ctx: Any) -> list[str]:
        """Return the names, those of the table first."""
        listed = [name for rows in COMMANDS.values() for name, _ in rows]
        return sorted(self.commands, key=[*listed, *self.commands].index)


app = Commands(
    cls=Tree,
    name="murmurec",
    help="Recommend from a Kafka stream of ratings that devices sanitize before they send them.",
    epilog="Example: murmurec demo -- Exit codes: 0 done, 1 failed, 2 wrong usage -- "
    "Every option of a command: --help-all",
    **_STYLE,
)


def _show_version(requested: bool) -> None:
    if requested:
        typer.echo(f"murmurec {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    pass


def _add(panel: str, name: str, path: str | None) -> None:
    """Add one row of the table to the tree."""
    try:
        module = import_module(f"stream_app.cli.{path}") if path else research(f"commands.{name}")
    except UserError:
        any_options = {"ignore_unknown_options": True}
        app.command(name, rich_help_panel=panel, context_settings=any_options)(_not_installed)
        return
    group = getattr(module, "app", None)
    if isinstance(group, typer.Typer):
        app.add_typer(group, name=name, rich_help_panel=panel)
    else:
        app.command(name, rich_help_panel=panel)(getattr(module, name))


def _not_installed(
    _arguments: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
) -> None:
    """Run this in a checkout: no install has the systems of the papers."""
    research("commands")


for _panel, _rows in COMMANDS.items():
    for _name, _path in _rows:
        _add(_panel, _name, _path)

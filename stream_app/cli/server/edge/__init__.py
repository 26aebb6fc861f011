"""`murmurec edge`: private recommendations for a site that knows its own users.

command      the options, here
actions      serve, accounts, import, backup
wiring       what the edge is made from; broker, worker and gateway of one's own, for a start
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from stream_app.cli.options import Cluster, JsonOption
from stream_app.errors import UsageError

PORT = 8490


class Action(StrEnum):
    """What the command does."""

    serve = "serve"
    accounts = "accounts"
    import_ = "import"
    backup = "backup"


@dataclass(frozen=True)
class EdgeFlags:
    """The store, the interface, and where events and items come from."""

    store: Annotated[
        str,
        typer.Option(
            "--store",
            metavar="URL",
            envvar="MURMUREC_EDGE_STORE",
            show_envvar=False,
            help="SQLite file, or postgresql:// for several edges (env MURMUREC_EDGE_STORE).",
        ),
    ] = "sqlite:///edge.db"
    site: Annotated[
        Path | None,
        typer.Option("--site", metavar="FILE", help="Budget, mechanism, feedback types, in TOML."),
    ] = None
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Where to listen.")] = (
        "127.0.0.1"
    )
    port: Annotated[
        int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="0: any free one.")
    ] = PORT
    names: Annotated[
        list[str] | None,
        typer.Option("--name", metavar="HOST", help="Name that clients use for it; repeatable."),
    ] = None
    topic: Annotated[
        str | None,
        typer.Option(
            "--from-topic", metavar="[HOST:PORT/]TOPIC", help="Read events from a topic, too."
        ),
    ] = None
    mapping: Annotated[
        Path | None,
        typer.Option("--mapping", metavar="FILE", help="Where its records hold what, in TOML."),
    ] = None
    scope: Annotated[
        Path | None,
        typer.Option("--scope", metavar="FILE", help="Public items, if reports hide the others."),
    ] = None
    items: Annotated[
        Path | None,
        typer.Option("--items", metavar="FILE", help="Import these items first: CSV, JSON."),
    ] = None
    events: Annotated[
        Path | None,
        typer.Option("--events", metavar="FILE", help="Import these events first: CSV, JSON."),
    ] = None
    standalone: Annotated[
        bool,
        typer.Option("--standalone", help="Start broker, worker and gateway, too, to try it."),
    ] = False
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False

    def check(self, context: typer.Context, cluster: Cluster) -> None:
        """Refuse options that contradict each other."""
        from stream_app.cli.device.mechanism_options import given_by_user

        _, _, address = self.store.partition("://")
        if given_by_user(context, "store") and ":" in address.rpartition("@")[0]:
            raise UsageError(
                "--store: every user of this machine can read a password on a command line; set "
                "MURMUREC_EDGE_STORE, or leave it to ~/.pgpass"
            )
        if (self.topic is None) != (self.mapping is None):
            raise UsageError("--from-topic TOPIC, --mapping FILE: give both")
        if self.standalone and cluster.bootstrap is not None:
            raise UsageError("--bootstrap: --standalone starts a Kafka of its own; give one")
        if self.standalone and not self.store.startswith("sqlite:"):
            raise UsageError("--standalone: is one process to try it; give a SQLite --store")


def edge(
    context: typer.Context,
    cluster: Cluster,
    options: EdgeFlags,
    action: Annotated[
        Action,
        typer.Argument(metavar="[ACTION]", help="serve, accounts, import FILE, or backup FILE."),
    ] = Action.serve,
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Of Gorse, Metarank, or one's own.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Take plain events of a site, send sanitized reports alone, and rank here.

    The site trusts this process and its store: they hold clean histories. The recommender behind it
    may be anybody's. With MURMUREC_EDGE_TOKEN set, programs of the site send it as bearer token.

    Example: murmurec edge --standalone --items items.csv
    """
    if (file is not None) != (action in (Action.import_, Action.backup)):
        raise UsageError("give import FILE or backup FILE, or another action without a file")
    options.check(context, cluster)
    import sqlalchemy  # noqa: F401 (absent in an install without the extra: named first)

    from stream_app.cli.server.edge import actions

    actions.check(options)
    if action is Action.accounts:
        actions.accounts(options, as_json=as_json)
    elif file is not None and action is Action.backup:
        actions.backup(options, file)
    elif file is not None:
        actions.import_file(options, file)
    else:
        actions.serve(options, cluster)

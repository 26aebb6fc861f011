"""The options that several commands share, declared once, and the settings made from them.

    Cluster          config, bootstrap, prefix, kafka    any command that reaches the broker
    WorkerSettings   a cluster, the allow-list, model    a command that recomputes the state

A command takes a group as one parameter, `cluster: Cluster`; `stream_app.cli.commands` gives its
fields to typer as options of that command.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from stream_app.cli.output import progress
from stream_app.errors import UsageError, UserError

if TYPE_CHECKING:
    from stream_app.kafka.clients import Connection
    from stream_app.operations.session import Session
    from stream_app.settings import Settings
    from stream_app.wire import Topics

SHARED = "Shared options"  # the panel that `--help` replaces by one line


class For(StrEnum):
    """The visit that a list is for."""

    next = "next"
    now = "now"


def shared(help: str, metavar: str | None = None, *names: str, **more: Any) -> Any:
    """Return an option of several commands; without `names` it is called as its parameter is."""
    return typer.Option(*names, metavar=metavar, help=help, **more)


# `settings.load` reads the environment and names the variable where its value is wrong; so the
# variables are named in the help and not given to typer.
BootstrapOption = Annotated[
    str | None, shared("Kafka's bootstrap servers (env MURMUREC_BOOTSTRAP_SERVERS).", "HOST:PORT")
]
ConfigOption = Annotated[
    Path | None,
    shared(
        "Settings in TOML; ./murmurec.toml if it exists (env MURMUREC_CONFIG).",
        "FILE",
        rich_help_panel=SHARED,
    ),
]
PrefixOption = Annotated[
    str | None, shared("Prefix of every topic (env MURMUREC_TOPIC_PREFIX).", "NAME")
]
KafkaOption = Annotated[
    list[str] | None,
    shared("librdkafka property; repeatable. Secrets: env MURMUREC_KAFKA.", "KEY=VALUE", "-X"),
]
AllowOption = Annotated[
    list[str] | None,
    shared("Allowed mechanism, e.g. rr:5:2; repeatable (env MURMUREC_MECHANISMS).", "ID"),
]
ModelOption = Annotated[
    str | None,
    shared("hybrid or sketch (env MURMUREC_MODEL).", "NAME"),
]
SnapshotOption = Annotated[
    Path | None, shared("The snapshot from which the state was adopted, if any.", "FILE")
]
GroupOption = Annotated[
    str | None, shared("Consumer group of the workers (env MURMUREC_TUNING_GROUP).", "NAME")
]
YesOption = Annotated[bool, shared("Do not ask for confirmation.", None, "--yes", "-y")]
JsonOption = Annotated[bool, shared("Print JSON.", None, "--json", rich_help_panel=SHARED)]


@dataclass(frozen=True)
class Cluster:
    """The broker and the settings of a deployment."""

    panel: ClassVar = SHARED

    config: ConfigOption = None
    bootstrap: BootstrapOption = None
    prefix: PrefixOption = None
    kafka: KafkaOption = None

    def settings(self, **flags: Any) -> Settings:
        """Return the settings of this call; `flags` are further fields, None where not given."""
        return settings_from(**vars(self), **flags)

    def session(self, snapshot: Path | None = None, **flags: Any) -> Session:
        """Return the deployment of these settings, whose operations show their progress."""
        from stream_app.operations.session import Session

        return Session.from_settings(self.settings(**flags), snapshot, progress)

    def sessions(self, snapshot: Path | None = None, **flags: Any) -> tuple[Session, ...]:
        """Return such a session for each shard: for that of the setting `shard`, or for all."""
        from stream_app.operations.session import Session

        return Session.each(self.settings(**flags), snapshot, progress)


@dataclass(frozen=True)
class WorkerSettings(Cluster):
    """A deployment with the allow-list and the model of its workers, which decide the state."""

    allow: AllowOption = None
    model: ModelOption = None


def settings_from(
    config: Path | None = None,
    bootstrap: str | None = None,
    prefix: str | None = None,
    kafka: Sequence[str] | None = None,
    allow: Sequence[str] | None = None,
    **flags: Any,
) -> Settings:
    """Return the settings of this call; `flags` are further fields, None where not given."""
    from stream_app.settings import is_secret, load

    pairs = [_pair(text) for text in kafka or ()]
    for name, _ in pairs:
        if is_secret(name):
            raise UsageError(
                f"-X {name[:40]}: every user of this machine can read a command line; "
                "set it in MURMUREC_KAFKA or in the configuration file"
            )
    properties = dict(pairs)
    return load(
        config,
        bootstrap_servers=bootstrap,
        topic_prefix=prefix,
        kafka=properties or None,
        mechanisms=tuple(allow or ()) or None,
        **flags,
    )


def campaign_keys(settings: Settings, files: Sequence[Path] | None) -> tuple[str, ...]:
    """Return the public halves of the parties in hex, a before b: those in `files` (`--keys`), or
    those of the setting `campaign_keys`; UsageError without either."""
    from stream_app.aggregation.keys import read_public

    found = tuple(read_public(path) for path in files or ()) or settings.campaign_keys
    if not found:
        raise UsageError(
            "no keys of the parties: give the public half of each with --keys FILE, a before b, or "
            "set MURMUREC_CAMPAIGN_KEYS to their hex digits, comma separated"
        )
    return found


def campaign_scope(settings: Settings, file: Path | None) -> Path:
    """Return the file of the public items of campaigns: that of `--scope`, or of the setting
    `campaign_scope`; UsageError without either."""
    found = file or settings.campaign_scope
    if found is None:
        raise UsageError(
            "no items of campaigns: give the list that the campaign was announced with (--scope "
            "FILE), or set MURMUREC_CAMPAIGN_SCOPE to its file"
        )
    return found


def connection_from(settings: Settings) -> Connection:
    """Return the connection to the configured cluster; refuses settings without a broker."""
    from stream_app.kafka.clients import Connection

    return Connection(settings.servers, settings.kafka)


def reached(settings: Settings) -> tuple[Connection, Topics]:
    """Return the connection to the configured cluster, which answers, and the names of the topics;
    UserError for one that does not."""
    from stream_app.kafka import clients
    from stream_app.wire import Topics

    connection = connection_from(settings)
    clients.describe_cluster(connection)
    return connection, Topics(settings.topic_prefix)


def confirm(yes: bool, what: str, question: str) -> None:
    """Ask before what cannot be undone, unless `yes`; a pipe cannot answer."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UserError(f"{what} cannot be undone: add --yes to confirm")
    if not typer.confirm(question):
        raise typer.Exit(1)


def one_blas_thread() -> None:
    """Limit linear algebra to one thread, unless the environment sets another number; to be called
    before numpy is imported, which reads the variables.

    The idle threads keep spinning: with three processes on two cores a proof took three times as
    long.
    """
    for name in ("OPENBLAS", "OMP", "MKL"):
        os.environ.setdefault(f"{name}_NUM_THREADS", "1")
    os.environ.setdefault("VECLIB_MAXIMUM_THREADS", "1")


def writable(path: Path) -> Path:
    """Return a path that can be written; called before the work whose result it takes."""
    try:
        if path.is_dir():
            raise UsageError(f"{path}: is a directory; give the name of a file in it")
        if not path.parent.is_dir():
            raise UserError(
                f"{path}: the directory {path.parent} does not exist; create it or choose another"
            )
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise UserError(f"{path}: cannot be written; choose another place")
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror})") from None
    return path


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        # Not repeated in full: the value may be a secret.
        raise UsageError(f"-X {name[:40]}: write a Kafka property as -X name=value")
    return name.strip(), value.strip()

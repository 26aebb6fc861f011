"""The options that several sub-commands share, written once, and the settings they make."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stream_app.errors import UserError

if TYPE_CHECKING:
    from stream_app.kafka.clients import Connection
    from stream_app.settings import Settings

# The environment variable is read by `settings.load`, which also names it when its value is wrong;
# so it is mentioned here and not given to typer.
BootstrapOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        metavar="HOST:PORT",
        help="Kafka's bootstrap servers. \\[env: MURMUREC_BOOTSTRAP_SERVERS]",
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="A TOML file of settings. \\[env: MURMUREC_CONFIG; default: ./murmurec.toml]",
    ),
]
PrefixOption = Annotated[
    str | None,
    typer.Option(
        "--prefix",
        metavar="NAME",
        help="First part of every topic's name. \\[env: MURMUREC_TOPIC_PREFIX]",
    ),
]
KafkaOption = Annotated[
    list[str] | None,
    typer.Option(
        "-X",
        metavar="KEY=VALUE",
        help="A librdkafka property; repeatable. Keep secrets in MURMUREC_KAFKA or the file.",
    ),
]
AllowOption = Annotated[
    list[str] | None, typer.Option(help="The workers' allow-list of mechanisms; repeatable.")
]
ModelOption = Annotated[str | None, typer.Option(help="The workers' model.")]
SnapshotOption = Annotated[
    Path | None,
    typer.Option(
        "--snapshot",
        metavar="FILE",
        help="The snapshot from which the state began, where it began from one.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Write JSON instead of a table.")]


def settings_from(
    config: Path | None = None,
    bootstrap: str | None = None,
    prefix: str | None = None,
    kafka: Sequence[str] | None = None,
    **flags: Any,
) -> Settings:
    """Return the settings of this call; `flags` are further fields, None where not given."""
    from stream_app.settings import is_secret, load

    pairs = [_pair(text) for text in kafka or ()]
    for name, _ in pairs:
        if is_secret(name):
            raise UserError(
                f"-X {name[:40]}: every user of this machine can read a command line; "
                "set it in MURMUREC_KAFKA or in the configuration file"
            )
    properties = dict(pairs)
    return load(
        config,
        bootstrap_servers=bootstrap,
        topic_prefix=prefix,
        kafka=properties or None,
        **flags,
    )


def connection_from(settings: Settings) -> Connection:
    """Return the connection to the configured cluster; refuses settings that name none."""
    from stream_app.kafka.clients import Connection

    return Connection(settings.servers, settings.kafka)


def writable(path: Path) -> Path:
    """Return a path to which a file can be written; asked before the work that fills it begins."""
    try:
        if path.is_dir():
            raise UserError(f"{path}: is a directory; give the name of a file in it")
        if not path.parent.is_dir():
            raise UserError(
                f"{path}: there is no directory {path.parent}; make it or choose another"
            )
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise UserError(f"{path}: cannot be written; choose another place")
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror})") from None
    return path


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        # Not repeated whole: a secret may stand in it.
        raise UserError(f"-X {name[:40]}: write a Kafka property as -X name=value")
    return name.strip(), value.strip()

"""`murmurec forget`: forget one device, on every worker that follows the log."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from stream_app.cli.options import (
    AllowOption,
    BootstrapOption,
    ConfigOption,
    JsonOption,
    KafkaOption,
    ModelOption,
    PrefixOption,
    settings_from,
)
from stream_app.errors import UserError

if TYPE_CHECKING:
    from stream_app.operations.session import Session
    from stream_app.wire.state_records import StateOrigin

_PLAIN = """\
From the next cut on every record of this device is refused, and what is its own is cleared:
its vector, its biases, its presence sums, its sequence number. What remains: what items and shared
cells of the sketch have learned from it; its bits in the filter of seen
items; its ratings in the counts; its pseudonym, in the list of the forgotten and in the order of
devices. To remove its ratings from what was learned: --rebuild."""
_REBUILD = """\
Every worker replays the log without this device: the model becomes that of a log without
its records. What remains: its pseudonym, in this entry of the cut log and in what checkpoints say
they leave out; how many of its records were refused, in the ledger."""
_RECORDS = """\
Its (sanitized) records stay in the rating topic until Kafka's retention removes them; every reader
of the topic can read them. Pages that it changed stay in the state topic until their generation is
older than the last but one, removed by tombstones, and compacted; and in data_dir/gaps,
data_dir/evidence and every snapshot file that was written before, until you delete them."""


def forget(
    device: Annotated[
        str, typer.Option(metavar="HEX", help="The device's pseudonym, 32 hex characters.")
    ],
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Replay the log without the device's records.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    prefix: PrefixOption = None,
    kafka: KafkaOption = None,
    allow: AllowOption = None,
    model: ModelOption = None,
    as_json: JsonOption = False,
) -> None:
    """Forget a device on every worker, now and at every replay. It cannot be undone.

    With --rebuild it prints the digest of the log without the device, which every worker's /state
    shows at the same cut.

    Example: murmurec forget --device c61c15392dcb4c0181d456afb280a046
    """
    from stream_app.cli.server.state_output import progress_bar
    from stream_app.operations import forget as forgetting
    from stream_app.operations.session import Session

    pseudonym = forgetting.parse_pseudonym(device)
    settings = settings_from(
        config, bootstrap, prefix, kafka, mechanisms=tuple(allow or ()) or None, model=model
    )
    session = Session.from_settings(settings, display=progress_bar)
    origin = forgetting.rebuildable_origin(session) if rebuild else None
    _ask(pseudonym, rebuild, yes, as_json)
    forgetting.forget(session, pseudonym, rebuild)
    _show(session, origin, pseudonym, rebuild, as_json)


def _ask(pseudonym: str, rebuild: bool, yes: bool, as_json: bool) -> None:
    if not as_json:
        typer.echo(f"{_REBUILD if rebuild else _PLAIN}\n{_RECORDS}")
    if yes:
        return
    if not sys.stdin.isatty():
        raise UserError(f"forgetting {pseudonym} cannot be taken back: add --yes if that is wanted")
    if not typer.confirm(f"Forget {pseudonym}?"):
        raise typer.Exit(1)


def _show(
    session: Session, origin: StateOrigin | None, pseudonym: str, rebuild: bool, as_json: bool
) -> None:
    """Print what was done, and the digest of the log without the device."""
    from stream_app.cli.server.state_output import show_values
    from stream_app.operations.forget import recompute_without
    from stream_app.operations.replay import summary

    values: dict[str, object] = {"device": pseudonym, "rebuild": rebuild}
    if origin is not None:
        values |= summary(recompute_without(session, origin, pseudonym))
    if as_json:
        typer.echo(json.dumps(values))
        return
    typer.echo("forgotten from the next cut on")
    if origin is not None:
        show_values(values, as_json)
        typer.echo("murmurec state verify --worker URL compares a worker with the log")

"""Digests and files of the state, computed from the log: `digest`, `replay`, `export`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import msgspec
import typer

from stream_app.checkpoints import snapshot_file
from stream_app.checkpoints.protocol.recovery import Found
from stream_app.checkpoints.shadow_copy import load_found
from stream_app.errors import UserError
from stream_app.log.canonical_order import Start
from stream_app.operations.session import Session
from stream_app.replay import positions as offsets
from stream_app.replay.recompute import Replayed, begin
from stream_app.state.replica import Replica
from stream_app.wire.state_records import StateOrigin


def digest(session: Session, at_cut: int | None, as_json: bool) -> None:
    """Print what the log leads to, over the origin of the newest checkpoint."""
    origin = session.begins_at()
    with session.replay() as replay:
        replica = replay.from_origin(origin, at_cut).replica
    show(told(replica), as_json)


def replay(session: Session, place: str, at_cut: int | None, as_json: bool) -> None:
    """Print what the log leads to from another place."""
    offsets.parse(place)
    origin, start = offsets.resolve_origin(
        session.servers, session.settings.kafka, session.names, session.settings.partitions, place
    )
    if at_cut is not None and at_cut < origin.cut:
        raise UserError(
            f"cut {at_cut}: from {place} a state begins at cut {origin.cut}; ask for more"
        )
    with session.replay() as over:
        begun = Replayed(begin(session.design, origin), start.cut_offset)
        replica = over.go_on(begun, start, at_cut).replica
    show(told(replica), as_json)


def export(session: Session, file: Path, at_cut: int | None, as_json: bool) -> None:
    """Write the state at a cut to a file: recomputed, or the newest checkpoint followed on."""
    began = time.monotonic()
    found = session.checkpoint()
    origin = found.manifest.origin if found else session.begins_at()
    with session.replay() as over:
        if found is None or at_cut is not None:
            replica = over.from_origin(origin, at_cut).replica
        else:
            manifest = found.manifest
            replica = loaded(session, found)
            start = Start(manifest.cut, manifest.end_offsets, manifest.cut_offset)
            replica = over.go_on(Replayed(replica, manifest.cut_offset), start).replica
    meta = snapshot_file.write(file, replica)
    seconds = time.monotonic() - began
    written = {"file": str(file), "bytes": file.stat().st_size, "digest": meta.digest}
    show(told(replica) | written | {"seconds": seconds}, as_json)


def loaded(session: Session, found: Found) -> Replica:
    """Return the replica that a checkpoint holds."""
    replica = begin(session.design, StateOrigin(0, (0,) * session.settings.partitions))
    try:
        load_found(replica, found)
    except ValueError as error:
        raise UserError(f"{session.names.state}: the checkpoint does not fit: {error}") from None
    return replica


def told(replica: Replica) -> dict[str, Any]:
    """Return what is told of a state at a cut."""
    return {
        "cut": replica.cut,
        "positions": list(replica.end_offsets),
        "base": msgspec.to_builtins(replica.origin),
        "model_digest": replica.model_digest(),
        "ledger_digest": replica.ledger_digest(),
        "design_digest": replica.spec.digest,
        "counts": replica.ledger.counts(),
        "rejected": replica.ledger.rejected(),
    }


def show(found: dict[str, Any], as_json: bool) -> None:
    """Print names and values."""
    if as_json:
        typer.echo(json.dumps(found))
        return
    width = max(len(name) for name in found)
    for name, value in found.items():
        typer.echo(f"{name:{width}}  {f'{value:.2f}' if isinstance(value, float) else value}")

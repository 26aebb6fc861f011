"""Computes states from the log, and their digests and snapshot files."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from stream_app.checkpoints import snapshot_file
from stream_app.errors import UserError
from stream_app.log.canonical_order import Start
from stream_app.operations.session import Session
from stream_app.replay import positions
from stream_app.replay.recompute import Replayed, begin
from stream_app.state.replica import Replica


@dataclass(frozen=True, eq=False)
class Exported:
    """A state that was written to a file of `bytes` bytes; `digest` identifies the file."""

    replica: Replica
    file: Path
    bytes: int
    digest: str
    seconds: float


def recompute_state(session: Session, at_cut: int | None = None) -> Replica:
    """Return the state at a cut (None: the newest), computed from the recorded origin."""
    origin = session.origin()
    with session.replay() as replay:
        return replay.from_origin(origin, at_cut).replica


def recompute_from(session: Session, position: str, at_cut: int | None = None) -> Replica:
    """Return the state at a cut of a replay that starts from another position in the log."""
    positions.parse(position)
    origin, start = positions.resolve_origin(session.deployment, position)
    if at_cut is not None and at_cut < origin.cut:
        raise UserError(
            f"cut {at_cut}: from {position} a state begins at cut {origin.cut}; give a later one"
        )
    with session.replay() as replay:
        begun = Replayed(begin(session.spec, origin), start.cut_offset)
        return replay.go_on(begun, start, at_cut).replica


def export(session: Session, file: Path, at_cut: int | None = None) -> Exported:
    """Write the state at a cut to a file: recomputed, or without `at_cut` the newest checkpoint
    advanced to the newest cut."""
    began = time.monotonic()
    if at_cut is None:
        replica = newest(session).replica
    else:
        manifest = session.manifest()
        origin = manifest.origin if manifest else session.origin()
        with session.replay() as replay:
            replica = replay.from_origin(origin, at_cut).replica
    meta = snapshot_file.write(file, replica)
    seconds = time.monotonic() - began
    return Exported(replica, file, file.stat().st_size, meta.digest, seconds)


def newest(session: Session) -> Replayed:
    """Return the newest checkpoint advanced to the newest cut; without one, the state of the
    log."""
    found = session.checkpoint()
    origin = session.origin() if found is None else None
    with session.replay() as replay:
        if found is None:
            return replay.from_origin(origin)
        manifest = found.manifest
        begun = Replayed(found.replica, manifest.cut_offset, manifest.tails)
        return replay.go_on(begun, Start.after(manifest))


def summary(replica: Replica) -> dict[str, Any]:
    """Return cut, positions, origin, digests and counts of a state, as plain values."""
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

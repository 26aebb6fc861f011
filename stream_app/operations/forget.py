"""Forgets a device: appends an entry to the cut log, which every worker applies."""

from __future__ import annotations

import re

from stream_app.checkpoints import offline_writer
from stream_app.errors import UsageError, UserError
from stream_app.operations.session import Session
from stream_app.replay.log_bounds import gone_before
from stream_app.replay.recompute import excluding
from stream_app.state.replica import Replica
from stream_app.wire import Forget, encode_message
from stream_app.wire.state_records import StateOrigin


def parse_pseudonym(text: str) -> str:
    """Return a device's pseudonym in lower case; refuses any other text."""
    if not re.fullmatch(r"[0-9a-f]{32}", text.lower()):
        raise UsageError(f"--device {text[:40]}: a pseudonym has 32 hex characters")
    return text.lower()


def rebuildable_origin(session: Session) -> StateOrigin:
    """Return the origin of the state; refuses an origin from which the log cannot be replayed."""
    if session.spec.shards > 1:
        raise UserError(
            f"--rebuild with shards = {session.spec.shards}: what the reports of this device "
            "taught has gone to the other shards, whose states would keep it: forget the device "
            "without --rebuild"
        )
    origin = session.origin()
    if origin.snapshot:
        raise UserError(
            f"--rebuild: the state began from the snapshot {origin.snapshot}, which may contain "
            "reports of this device and cannot be replayed: forget the device without --rebuild"
        )
    if missing := gone_before(session.deployment, origin.end_offsets):
        raise UserError(
            f"--rebuild: {missing}, so the log cannot be replayed: restore the topic, or forget "
            "the device without --rebuild"
        )
    return origin


def forget(session: Session, pseudonym: str, rebuild: bool) -> int:
    """Append the entry; returns its offset when the broker has acknowledged it, -1 if unknown."""
    entry = encode_message(Forget(pseudonym, rebuild))
    return offline_writer.append(session.connection, session.names.cuts, entry)


def recompute_without(session: Session, origin: StateOrigin, pseudonym: str) -> Replica:
    """Return the state at the newest cut, computed from the log without the device."""
    with session.replay("replaying the log without the device") as replay:
        return replay.from_origin(excluding(origin, [pseudonym])).replica

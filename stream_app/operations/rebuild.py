"""Writes a checkpoint computed from the log, regardless of the checkpoints in the state topic."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from confluent_kafka import KafkaError, KafkaException

from stream_app.checkpoints import checkpoint_reader
from stream_app.checkpoints.offline_writer import OfflineRejectionWriter, write_checkpoint
from stream_app.errors import UserError
from stream_app.kafka import clients, passing
from stream_app.operations.session import Session
from stream_app.state.outcome import rejected
from stream_app.state.replica import BatchOutcome, Replica
from stream_app.wire import Batch, Rejection, Tail
from stream_app.wire.reasons import REASONS, Reason
from stream_app.wire.state_records import Manifest

_SECONDS = 30.0
# Reasons for which a record is rejected under one setting and accepted under another.
_BY_SETTINGS = (
    Reason.WRONG_PARTITION,
    Reason.MECHANISM_NOT_ALLOWED,
    Reason.TEST_EVENT,
    Reason.BAD_SIGNATURE,
)


@dataclass(frozen=True, eq=False)
class Rebuilt:
    """A state that was recomputed from the log and written as a new checkpoint."""

    replica: Replica
    manifest: Manifest
    replay_seconds: float
    write_seconds: float


def rebuild(session: Session, *, drop: bool = False) -> Rebuilt:
    """Recompute the state from the recorded origin, publish every rejection of the replay again,
    and write the complete state.

    Raises UserError where the settings reject records that the newest checkpoint has applied,
    unless `drop`; nothing is written then.
    """
    refuse_while_workers_run(session)
    before = None if drop else _newest(session)
    origin = session.recorded_origin()
    began = time.monotonic()
    # A worker that starts from the new checkpoint skips these records, so it never rejects them.
    reject = OfflineRejectionWriter(session.connection, session.names.rejected)
    held: list[Rejection] = []  # until the settings are known to drop nothing

    def reject_held() -> None:
        while held:
            reject(held.pop())

    def reject_again(batch: Batch, outcome: BatchOutcome) -> None:
        held.extend(rejected(session.names.ratings, batch, outcome))

    def compare(replica: Replica) -> None:
        if before is not None and replica.cut == before.cut:
            _refuse_dropped(before, replica)
        if before is None or replica.cut >= before.cut:
            reject_held()

    with session.replay() as replay:
        replay.each_batch, replay.each_cut = reject_again, compare
        state = replay.from_origin(origin)
    reject_held()
    reject.flush()
    replayed = time.monotonic()
    with session.display("writing the checkpoint") as progress:
        manifest = write(
            session,
            state.replica,
            state.cut_offset,
            "murmurec state rebuild",
            progress,
            state.tails,
        )
    written = time.monotonic()
    return Rebuilt(state.replica, manifest, replayed - began, written - replayed)


def _newest(session: Session) -> Manifest | None:
    """Return the newest checkpoint, of any design, None without one."""
    found = checkpoint_reader.manifests(
        session.connection, session.names, seal=session.deployment.seal
    )
    return found[-1] if found else None


def _refuse_dropped(before: Manifest, replica: Replica) -> None:
    """Refuse settings that reject more of the log, up to the cut of a checkpoint, than those that
    the checkpoint was made with."""
    earlier = next((a for a in before.ledger_arrays if a.name == "reasons"), None)
    reasons = replica.ledger.reasons.sum(axis=0)
    if earlier is None or before.origin != replica.origin:
        return
    counted = np.frombuffer(earlier.data, earlier.dtype).reshape(earlier.shape).sum(axis=0)
    more = {
        reason: int(now - then)
        for reason, now, then in zip(REASONS, reasons, counted, strict=False)
        if reason in _BY_SETTINGS and now > then
    }
    if more:
        words = ", ".join(f"{count:,} as {reason}" for reason, count in more.items())
        raise UserError(
            f"{sum(more.values()):,} records that the state holds would be dropped ({words}): the "
            "settings of this start reject them; set the settings back, start a new deployment "
            "(--prefix), or drop them for good with murmurec worker --rebuild --accept-gap"
        )


def write(
    session: Session,
    replica: Replica,
    cut_offset: int,
    worker: str,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
    tails: tuple[Tail | None, ...] = (),
) -> Manifest:
    """Write a checkpoint unless a worker has started meanwhile: a replay takes minutes."""
    refuse_while_workers_run(session)
    total = sum(array.nbytes for array in replica.model_arrays().values())
    return write_checkpoint(
        session.deployment,
        replica,
        cut_offset,
        worker,
        lambda done: progress(done, max(done, total)),
        tails,
    )


def refuse_while_workers_run(session: Session) -> None:
    """Refuse while the workers' group has members: one of them writes to the state topic."""
    members = _members(session)
    if members:
        raise UserError(
            f"{members} workers run in group {session.group}: stop them first; if they "
            "have ended already, the group removes them after its session timeout"
        )


def _members(session: Session) -> int:
    """Return how many members the workers' group has; an unknown group has none."""
    admin, group = clients.admin(session.connection), session.group
    what = f"group {group} cannot be described"

    def ask(left: float) -> int:
        return len(admin.describe_consumer_groups([group])[group].result(timeout=left).members)

    try:
        return passing.answered(ask, _SECONDS, what)
    except KafkaException as error:
        reason: KafkaError = error.args[0]
    if reason.code() == KafkaError.GROUP_ID_NOT_FOUND:
        return 0
    fault = f"{what}: {reason.name()}"
    raise UserError(passing.refusal(reason, f"group {group}", "DESCRIBE", fault))

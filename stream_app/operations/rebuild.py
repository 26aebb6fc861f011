"""Writes a checkpoint computed from the log, regardless of the checkpoints in the state topic."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from stream_app.checkpoints.offline_writer import OfflineRejectionWriter, write_checkpoint
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.operations.session import Session
from stream_app.state.outcome import rejected
from stream_app.state.replica import BatchOutcome, Replica
from stream_app.wire import Batch, Tail
from stream_app.wire.state_records import Manifest

_SECONDS = 30.0
_PAUSE_SECONDS = 0.1
# A broker that has just started may not know the coordinator of a group yet.
_PASSING = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)


@dataclass(frozen=True, eq=False)
class Rebuilt:
    """A state that was recomputed from the log and written as a new checkpoint."""

    replica: Replica
    manifest: Manifest
    replay_seconds: float
    write_seconds: float


def rebuild(session: Session) -> Rebuilt:
    """Recompute the state from the recorded origin, publish every rejection of the replay again,
    and write the complete state."""
    refuse_while_workers_run(session)
    origin = session.recorded_origin()
    began = time.monotonic()
    # A worker that starts from the new checkpoint skips these records, so it never rejects them.
    reject = OfflineRejectionWriter(session.connection, session.names.rejected)

    def reject_again(batch: Batch, outcome: BatchOutcome) -> None:
        for rejection in rejected(session.names.ratings, batch, outcome):
            reject(rejection)

    with session.replay() as replay:
        replay.each_batch = reject_again
        state = replay.from_origin(origin)
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
    admin = clients.admin(session.connection)
    deadline = time.monotonic() + _SECONDS
    while True:
        described: Future[Any] = admin.describe_consumer_groups([session.group])[session.group]
        try:
            return len(described.result(timeout=_SECONDS).members)
        except TimeoutError:
            raise UserError(
                f"group {session.group} cannot be described: the broker did not answer within "
                f"{_SECONDS:.0f} s; try again"
            ) from None
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            if reason.code() == KafkaError.GROUP_ID_NOT_FOUND:
                return 0
            if reason.code() not in _PASSING or time.monotonic() > deadline:
                raise UserError(
                    f"group {session.group} cannot be described: {reason.name()}"
                ) from None
        time.sleep(_PAUSE_SECONDS)

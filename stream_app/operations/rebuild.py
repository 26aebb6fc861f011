"""`murmurec state rebuild`: a checkpoint made from the log, whatever the state topic holds."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from stream_app.checkpoints.offline_writer import Rejecting, write_checkpoint
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.operations.replay import show, told
from stream_app.operations.session import Session, bar
from stream_app.state.rejections import rejected
from stream_app.state.replica import BatchOutcome, Replica
from stream_app.wire import Batch
from stream_app.wire.state_records import Manifest

_SECONDS = 30.0
_PAUSE_SECONDS = 0.1
# A broker that has just started does not know yet who looks after which group.
_PASSING = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)


def rebuild(session: Session, as_json: bool) -> None:
    """Recompute the state over the origin that the topic tells, tell of every record that was set
    aside on the way, and write the state whole."""
    refuse_while_workers_run(session)
    origin = session.known_origin()
    began = time.monotonic()
    topic, kafka = session.names.ratings, session.settings.kafka
    # A worker that goes on from the checkpoint passes over these records: it would never tell.
    tell = Rejecting(session.servers, kafka, session.names.rejected)

    def told_of(batch: Batch, outcome: BatchOutcome) -> None:
        for rejection in rejected(topic, batch, outcome):
            tell(rejection)

    with session.replay() as replay:
        replay.each_batch = told_of
        state = replay.from_origin(origin)
    tell.flush()
    replayed = time.monotonic()
    with bar("writing the checkpoint") as progress:
        manifest = write(
            session, state.replica, state.cut_offset, "murmurec state rebuild", progress
        )
    written = time.monotonic()
    seconds = {"replay_seconds": replayed - began, "write_seconds": written - replayed}
    show(told(state.replica) | {"generation": manifest.generation} | seconds, as_json)


def write(
    session: Session,
    replica: Replica,
    cut_offset: int,
    worker: str,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Manifest:
    """Write a checkpoint, if no worker has come meanwhile: a replay takes minutes."""
    refuse_while_workers_run(session)
    total = sum(array.nbytes for array in replica.model_arrays().values())
    return write_checkpoint(
        session.servers,
        session.settings.kafka,
        session.names,
        replica,
        cut_offset,
        worker,
        lambda done: progress(done, max(done, total)),
    )


def refuse_while_workers_run(session: Session) -> None:
    """Refuse while the workers' group has members: one of them writes to the state topic."""
    members = _members(session)
    if members:
        raise UserError(
            f"{members} workers run in group {session.group}: stop them first; if they are "
            "gone already, the group forgets them after its session timeout"
        )


def _members(session: Session) -> int:
    """Return how many members the workers' group has; one that there never was has none."""
    admin = clients.admin(session.servers, session.settings.kafka)
    deadline = time.monotonic() + _SECONDS
    while True:
        asked: Future[Any] = admin.describe_consumer_groups([session.group])[session.group]
        try:
            return len(asked.result(timeout=_SECONDS).members)
        except TimeoutError:
            raise UserError(
                f"group {session.group} cannot be described: the broker has said nothing for "
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

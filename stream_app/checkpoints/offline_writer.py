"""Writes from a command: a complete checkpoint, one cut-log entry, or rejections.

Each call returns when the broker has acknowledged the records. No worker may run while a command
writes a checkpoint, unless it is of a state beside the one in force.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence

from stream_app.checkpoints import checkpoint_reader as reader
from stream_app.checkpoints.design_in_force import BESIDE
from stream_app.checkpoints.driver import CheckpointDriver
from stream_app.checkpoints.protocol.writer import OWNER_BYTES, Freeze, LeaseAcquired
from stream_app.checkpoints.state_image import StateImage
from stream_app.deployment import Deployment
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.acknowledged_writer import AcknowledgedWriter, OnAcknowledged
from stream_app.kafka.clients import Connection
from stream_app.models.paged_arrays import unmark_equal
from stream_app.state.replica import Replica
from stream_app.wire import Rejection, Tail, encode_message
from stream_app.wire.state_records import Manifest, is_manifest


def write_checkpoint(
    deployment: Deployment,
    replica: Replica,
    cut_offset: int,
    worker: str,
    progress: Callable[[int], None] | None = None,
    tails: tuple[Tail | None, ...] = (),
    *,
    beside: bool = False,
) -> Manifest:
    """Write the complete state of a replica at a cut as a new generation; return its durable
    manifest. `progress` is called with the number of acknowledged bytes; `tails` are the last
    records before the cut, as far as known. A state that was built `beside` counts once its design
    has taken over."""
    connection, topics = deployment.connection, deployment.topics
    empty, maps = Replica(replica.spec).model_arrays(), replica.dirty_pages()
    for name, array in replica.model_arrays().items():
        unmark_equal(maps[name], array, empty[name])  # such pages are not written
    image = StateImage(replica)
    image.freeze(write=True, full=True)
    image.hash()
    rating_topic = reader.topic_id(clients.admin(connection), topics.ratings)
    frozen = image.frozen(rating_topic, cut_offset, tails)
    # Of a state beside nothing may go: until its design takes over, the others are in force.
    obsolete_keys = [] if beside else reader.live_keys(connection, topics)
    headers = [*replica.spec.headers, *([(BESIDE, b"1")] if beside else [])]
    driver = _driver(deployment, headers, progress or (lambda _: None))
    driver.drive(LeaseAcquired(secrets.token_bytes(OWNER_BYTES), worker, obsolete_keys))
    manifest = driver.drive(Freeze(frozen))
    image.release(durable=manifest is not None).close()
    if manifest is None:
        raise UserError(f"{topics.state}: the checkpoint did not become durable; try again")
    return manifest


def append(connection: Connection, topic: str, value: bytes) -> int:
    """Append one record to a topic of one partition; return its acknowledged offset, or -1."""
    return append_all(connection, topic, [value])[0]


def append_all(connection: Connection, topic: str, values: Sequence[bytes]) -> list[int]:
    """Append records in their order; return their offsets as `append`."""
    offsets = list[int]()
    writer = AcknowledgedWriter.connect(connection, topic, "an entry", linger_ms=0)
    for value in values:
        writer.send(value=value, partition=0, on_acknowledged=offsets.append)
    writer.wait()
    return offsets


class OfflineRejectionWriter:
    """Writes rejections, keyed by record: a second rejection of a record replaces the first."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self._writer = AcknowledgedWriter.connect(connection, topic, "a rejection")

    def __call__(self, rejection: Rejection) -> None:
        """Queue one rejection; waits while the queue is full; raises if an earlier one failed."""
        self._writer.send_patiently(key=rejection.key, value=encode_message(rejection))

    def flush(self) -> None:
        """Return when the broker has acknowledged every rejection; raises if one failed."""
        self._writer.wait()


def _driver(
    deployment: Deployment,
    manifest_headers: list[tuple[str, bytes]],
    progress: Callable[[int], None],
) -> CheckpointDriver:
    """Return a driver that raises if a record is refused or no acknowledgement arrives."""
    writer = AcknowledgedWriter.connect(
        deployment.connection,
        deployment.topics.state,
        "a record of a checkpoint",
        linger_ms=5,
        compression_type="lz4",
        **clients.LARGE_BATCHES,
    )

    def produce(key: bytes, value: bytes | None, on_acknowledged: OnAcknowledged) -> None:
        headers = manifest_headers if is_manifest(key) else None
        writer.send(
            key=key, value=value, partition=0, headers=headers, on_acknowledged=on_acknowledged
        )

    def may_go_on() -> bool:
        progress(driver.acknowledged_bytes)
        writer.check_progress()
        return True

    driver = CheckpointDriver(produce, writer.poll, may_go_on, deployment.seal)
    return driver

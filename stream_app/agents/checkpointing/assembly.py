"""The checkpoint service of a worker, tied to the state topic and to the group's assignment.

A worker that becomes the writer of the state topic scans it. One that owns the clock soon after its
start has read the topic just before: it reads on from there. Later the whole topic is read again,
of which only keys and manifests are held.
"""

from __future__ import annotations

import os
import platform
import time

import faust
import structlog

from stream_app.agents.checkpointing.checkpoint_service import CheckpointService
from stream_app.agents.checkpointing.fenced_producer import FencedProducer, gap_reader
from stream_app.agents.faust_ext import state_table
from stream_app.agents.faust_ext.group_membership import Membership
from stream_app.agents.rejections import RejectionWriter, patient_producer
from stream_app.agents.runtime import Runtime
from stream_app.checkpoints import checkpoint_reader
from stream_app.checkpoints import checkpoint_reader as reader
from stream_app.checkpoints.checkpoint_reader import Survey
from stream_app.checkpoints.cut_log_scan import CutLogScan
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_follower import TopicReader
from stream_app.wire import Topics, WireError
from stream_app.wire.authenticity.seal import OPEN, Seal
from stream_app.wire.state_records import DIGEST_BYTES, Manifest, decode_manifest

# A tombstone stays in the topic for a day (delete.retention.ms): a reader that goes on much sooner
# misses none.
_KNOWN_SECONDS = 3600.0
_NOT_HASHED = b"-" * DIGEST_BYTES


class StateTopicScan:
    """Returns every key that has a value, and every manifest that can be read and has this seal."""

    def __init__(self, connection: Connection, topics: Topics, seal: Seal = OPEN) -> None:
        self._connection, self._topics, self._seal = connection, topics, seal
        self._known: tuple[float, Survey] | None = None

    def remember(self, survey: Survey) -> None:
        """Keep what a start has read of the topic; from any thread."""
        self._known = time.monotonic(), survey

    def __call__(self) -> tuple[list[bytes], list[Manifest]]:
        """Read the topic, or what was appended since it was remembered."""
        known, self._known = self._known, None
        if known is not None and time.monotonic() - known[0] < _KNOWN_SECONDS:
            rules, position = known[1].rules, known[1].position
            with TopicReader(self._connection, self._topics.state) as topic:
                if position <= topic.end:
                    for batch in topic.batches(position):
                        for each in batch:
                            # Only keys and manifests are wanted, so pages are not hashed.
                            rules.read(each.offset() or 0, each.key(), each.value(), _NOT_HASHED)
                    return rules.keys, self._logged(rules.manifests)
        keys, manifests = self._all()
        return keys, self._logged(manifests)

    def _logged(self, manifests: list[Manifest]) -> list[Manifest]:
        """Return the manifests whose cut the cut log holds: a forged one of a distant cut would
        keep the writer from every checkpoint before it."""
        scan = CutLogScan(self._connection, self._topics.cuts)
        return [manifest for manifest in manifests if scan.names(manifest)]

    def _all(self) -> tuple[list[bytes], list[Manifest]]:
        live: dict[bytes, Manifest | None] = {}

        def note(_: int, key: bytes | None, value: bytes | None) -> None:
            if key is None:
                return
            live.pop(key, None)
            if value is not None:
                live[key] = _manifest(value, self._seal) if key[:1] == b"M" else None

        reader.read(self._connection, self._topics, note)
        return list(live), [manifest for manifest in live.values() if manifest is not None]


def _manifest(value: bytes, seal: Seal) -> Manifest | None:
    try:
        return decode_manifest(value, seal)
    except WireError:
        return None


log = structlog.get_logger()


def attach(
    app: faust.App,
    runtime: Runtime,
    connection: Connection,
    membership: Membership,
    rejections: RejectionWriter,
    scan: StateTopicScan,
) -> CheckpointService:
    """Add the state's table and return the service; the worker that has the table checkpoints.

    `runtime.append` must be set before the first checkpoint: the digests go into the cut log.
    """
    settings, topics, status = runtime.settings, runtime.topics, runtime.status
    topic_id = checkpoint_reader.topic_id(clients.admin(connection), topics.ratings)

    def on_later_claim(generation: int) -> None:
        log.warning("checkpoint.claimed_by_another", generation=generation)
        table.step_down()

    fenced = FencedProducer(
        patient_producer(
            connection,
            linger_ms=5,
            compression_type="lz4",
            **clients.LARGE_BATCHES,
        ),
        topics.state,
        status.fail_from_thread,
        on_later_claim,
        gap_reader(connection, topics.state),
        lambda: membership.lease_valid,
        runtime.seal,
        lambda: runtime.replica.spec.headers,
    )
    service = CheckpointService(
        runtime,
        fenced,
        rejections,
        topic_id,
        scan,
        f"{platform.node()}:{settings.instance or os.getpid()}",
    )
    table = state_table.attach(
        app,
        runtime.replica.model_arrays,
        fenced,
        assigned_with=topics.cuts,
        partitions_now=state_table.partition_counter(connection),
        acquire=service.acquire,
        release=service.release,
        fail=status.fail_from_thread,
    )
    membership.on_evicted = table.step_down
    return service

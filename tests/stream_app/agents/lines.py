"""A runtime with checkpoints whose state topic is a list in memory; polling acknowledges."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from math import inf

from prometheus_client import CollectorRegistry

from stream_app.agents.checkpointing.checkpoint_service import CheckpointService
from stream_app.agents.runtime import Runtime
from stream_app.agents.warmup import warm_up
from stream_app.checkpoints.checkpoint_reader import Checkpoint, Survey
from stream_app.checkpoints.protocol.recovery import Recovery
from stream_app.monitoring.gauges import Gauges
from stream_app.monitoring.metrics import Metrics
from stream_app.serving.catalogue import Catalogue
from stream_app.serving.recommender import Recommender
from stream_app.settings import Settings
from stream_app.state.replica import Replica, StateSpec
from stream_app.wire import Rejection, Topics, decode_many
from stream_app.wire.state_records import Manifest, decode_manifest
from tests.fixtures.replicas import SMALL
from tests.fixtures.state_topic import recovered
from tests.fixtures.streams import Published, log, run_of

TOPIC_ID = "t" * 22


@dataclass
class Line:
    """The state topic, the digest reports, and the rejections that were queued."""

    records: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    digest_reports: list[bytes] = field(default_factory=list)
    answers: bool = True
    queued_count: int = 0
    all_acknowledged: threading.Event = field(default_factory=threading.Event)
    checkpoints: CheckpointService = field(init=False)
    _waiting: list[tuple[int, Callable[..., None]]] = field(default_factory=list)

    def produce(
        self, key: bytes, value: bytes | None, on_acknowledged: Callable[[int], None]
    ) -> None:
        """Take a record."""
        self.records.append((key, value))
        self._waiting.append((len(self.records) - 1, on_acknowledged))

    def poll(self, seconds: float = 0.0) -> None:
        """Acknowledge what was taken, if the broker answers."""
        while self.answers and self._waiting:
            offset, on_acknowledged = self._waiting.pop(0)
            on_acknowledged(offset)

    def wait(self, count: int, may_go_on: Callable[[], bool]) -> None:
        """Wait until the rejections are acknowledged."""
        while count > 0 and may_go_on() and not self.all_acknowledged.wait(0.01):
            pass

    def scan_state_topic(self) -> tuple[list[bytes], list[Manifest]]:
        """Return the keys and the manifests that the topic holds."""
        live = dict(self.records)
        return list(live), [decode_manifest(v) for k, v in live.items() if v and k[:1] == b"M"]

    def recovered(self) -> Checkpoint | None:
        """Return the newest checkpoint that the topic holds."""
        records = [(offset, key, value) for offset, (key, value) in enumerate(self.records)]
        found = recovered(records, SMALL, TOPIC_ID)
        if found is None:
            return None
        survey = Survey(Recovery(SMALL.digest, TOPIC_ID, SMALL.partitions), 0)
        return Checkpoint(found[0].manifest, found[1], survey)


@cache
def compile_kernels() -> None:
    """Compile the kernels once, before a test's deadline runs."""
    warm_up(SMALL)


def a_runtime(
    reject: Callable[[Rejection], None] = lambda _: None,
    settings: Settings | None = None,
    spec: StateSpec = SMALL,
) -> tuple[Runtime, Line]:
    """Return a runtime of a small replica and its line; call it inside a running loop."""
    compile_kernels()
    replica, catalogue, line = Replica(spec), Catalogue(), Line()
    recommender = Recommender(replica, catalogue, "exact")
    gauges = Gauges(Metrics(CollectorRegistry()), replica, recommender)
    runtime = Runtime(
        settings or Settings(), Topics(), replica, catalogue, recommender, gauges, reject
    )
    line.checkpoints = runtime.checkpoints = CheckpointService(
        runtime,
        line,  # type: ignore[arg-type]
        line,  # type: ignore[arg-type]
        TOPIC_ID,
        line.scan_state_topic,
        "test",
    )
    runtime.checkpoints.restart()
    # There is no broker to be unreachable, however long a kernel compiles on this machine.
    runtime.status.last_answer_time = inf
    runtime.append = line.digest_reports.append
    return runtime, line


def runtime_alone() -> Runtime:
    """Return a runtime whose checkpoints and event loop have ended: for what needs neither."""

    async def made() -> Runtime:
        runtime, line = a_runtime()
        line.checkpoints.close()
        return runtime

    return asyncio.run(made())


def apply(
    runtime: Runtime, records: list[Published], before: tuple[int, ...] = (0, 0, 0, 0)
) -> tuple[int, ...]:
    """Apply records that lie behind offsets `before` and return where each partition ends."""
    parts = log(records)
    for p, part in enumerate(parts):
        if part:
            run = run_of(part, 0, len(part), p)
            placed = replace(run, offsets=[before[p] + offset for offset in run.offsets])
            runtime.apply(decode_many(placed, SMALL.intake))
    return tuple(len(part) for part in parts)

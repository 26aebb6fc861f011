"""Compiling the kernels before they are needed: a few events through a small replica of the same
spec.

Compiled code is cached, so only the very first start takes long (tens of seconds). Neither
compiling nor loading may run on the event loop, where queries and heartbeats would wait. The events
are decoded from bytes as real events are, so every kernel is compiled for the same types.

`murmurec worker --warmup` fills the cache without a broker. The cache is valid for one processor
model: on another model numba compiles again.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import structlog
from prometheus_client import CollectorRegistry

from stream_app.campaigns import learning
from stream_app.campaigns.planning import Outline, plan
from stream_app.kernels.instrumentation import CompilationCount
from stream_app.kernels.stream.event_text import scan_events
from stream_app.monitoring.gauges import Gauges
from stream_app.monitoring.metrics import Metrics
from stream_app.replay.signature_check import SignatureCheck
from stream_app.serving.catalogue import Catalogue
from stream_app.serving.recommender import Recommender
from stream_app.serving.served_side import Ingredients
from stream_app.state.replica import Replica, StateSpec
from stream_app.wire import (
    Batch,
    Event,
    RecordRun,
    decode_many,
    encode,
    encode_json,
    partitions_of,
)
from stream_app.wire.exchange import decode_change, encode_change
from stream_app.wire.signatures import Claim

log = structlog.get_logger()

# Enough to make tables grow, and to let qoLSH shorten a list instead of scanning every item.
_DEVICES, _ITEMS = 1500, 2600


class KernelWarmUp:
    """The warm-up of one worker, in its own thread, and its progress.

    `waiting` is set while the reader waits for the warm-up, `awaited` where no query is answered
    before its end.
    """

    def __init__(self) -> None:
        self.awaited = self.waiting = False
        self._count = CompilationCount(self._log_begin)
        self._began = time.monotonic()
        self._result: Future[None] | None = None

    def start(self, spec: StateSpec, index: str) -> None:
        """Begin the warm-up."""
        pool = ThreadPoolExecutor(1, "murmurec-warm-up")
        self._began = time.monotonic()
        self._result = pool.submit(self._run, spec, index)
        pool.shutdown(wait=False)

    def wait(self, *, serving: bool = False) -> None:
        """Return when the warm-up is over; raises its failure. `serving`: queries are answered
        meanwhile, by kernels that are compiled already."""
        if self._result is None:
            return
        self.waiting, self.awaited = True, not serving
        try:
            self._result.result()
        finally:
            self.awaited = self.waiting = False

    def progress(self) -> str:
        """Return the progress of the warm-up as a sentence."""
        if not self._count.kernels:
            return "loading the compiled kernels"
        seconds = time.monotonic() - self._began
        return (
            f"compiling kernels: {self._count.kernels} so far, for {seconds:.0f} s "
            "(on the first start only; murmurec worker --warmup does it beforehand)"
        )

    def _run(self, spec: StateSpec, index: str) -> None:
        with self._count:
            warm_up(spec, index)
        if self._count.kernels:
            seconds = round(time.monotonic() - self._began, 1)
            log.info("kernels.compiled", kernels=self._count.kernels, seconds=seconds)

    @staticmethod
    def _log_begin() -> None:
        log.info("kernels.compiling", reason="the cache has none for this processor and version")


def is_cached() -> bool:
    """Return whether the cache of this release's kernels holds any compiled code."""
    return any(Path(os.environ["NUMBA_CACHE_DIR"]).rglob("*.nbi"))


def compiled(spec: StateSpec, index: str) -> int:
    """Warm up; return how many kernels were not in the cache."""
    with CompilationCount() as count:
        warm_up(spec, index)
    return int(count.kernels)


def warm_up(spec: StateSpec, index: str = "auto") -> None:
    """Run every kernel that a worker of this spec calls, on invented events."""
    spec = replace(spec, withdrawn=())
    small = {"sketch_bytes": 1 << 16, "scalars_bytes": 1 << 14, "seen_bytes": 1 << 14}
    head = min(spec.head_items, 256)  # fewer than the items, so that slots change hands
    rows = min(spec.items_most, 2048)
    spec = replace(spec, held_out=0.3, head_items=head, items_most=rows)
    replica = Replica(replace(spec, **small))  # type: ignore[arg-type]
    recommender = Recommender(replica, Catalogue(), index)
    gauges = Gauges(Metrics(CollectorRegistry()), replica, recommender)
    events = _events(spec)
    for partition in range(spec.partitions):
        batch = _decoded(events, partition, spec)
        outcome = replica.apply(batch)
        gauges.watch(outcome)
        recommender.mark_stale(outcome.rows)
    recommender.replaced(replica.end_round(1, (1,) * spec.partitions))
    _exchange(replica)
    replica.learner.items(replica.items.keys[:1])
    replica.ledger_digest()
    if spec.signed:
        _check_signature()
    if spec.parties:
        _learn_campaign()
    gauges.publish()
    gauges.publish_fill()
    for device in (events[0].device, bytes(16)):
        recommender.answer(device, 2)
        recommender.recall(device, 2)
    _serve_side(recommender, events[0].device)
    replica.forget(events[0].device)
    replica.apply(_decoded(events, 0, spec))  # again: duplicates, and a forgotten device
    replica.end_round(2, (2,) * spec.partitions, (1, 1))  # the events are of day 0: all are evicted


def _exchange(replica: Replica) -> None:
    """Merge a change of the replica's own, and the same one as if another shard had made it."""
    change = replica.change(1, pairs=True)
    if change is None:
        return
    spec = replica.spec
    own = decode_change(encode_change(change))
    other = replace(own, shard=(spec.shard + 1) % spec.shards)
    replica.merge([own, other])


def _serve_side(recommender: Recommender, device: bytes) -> None:
    """Derive an item side and answer by it."""
    ingredients = Ingredients.taken_from(recommender.replica)
    if ingredients is None:
        return
    recommender.adopt(ingredients.derived())
    for known in (device, bytes(16)):
        recommender.answer(known, 2)


def _learn_campaign() -> None:
    """Learn a stage over two items."""
    campaign = plan(Outline(Fraction(1), Fraction(1, 10**6), 1), range(2))
    learning.learn(campaign, 0, np.zeros(campaign.stages[0].size, np.int64))


def _check_signature() -> None:
    check = SignatureCheck(threads=1)
    check([Claim(bytes(32), bytes(64), b"")])
    check.close()


def _events(spec: StateSpec) -> list[Event]:
    random = np.random.default_rng(0)
    events = []
    for i in range(_DEVICES):
        mechanism = spec.mechanisms[i % len(spec.mechanisms)]
        items = ((np.arange(4) * _DEVICES + i) % _ITEMS).astype(np.uint64)
        masks = np.ones(4, np.uint16) if mechanism.masks else None
        reports = np.zeros(4, np.uint8)
        events.append(Event(random.bytes(16), 1, mechanism.id, 0, items, reports, masks=masks))
    return events


def _decoded(events: list[Event], partition: int, spec: StateSpec) -> Batch:
    keys = np.frombuffer(b"".join([event.key for event in events]), np.uint8).reshape(-1, 32)
    homes = partitions_of(keys, spec.partitions)
    chosen = [event for event, home in zip(events, homes, strict=True) if home == partition]
    run = RecordRun(
        partition, range(len(chosen)), [e.key for e in chosen], [encode(e) for e in chosen]
    )
    # Made here and not by a device, so it has no signature.
    intake = replace(spec, devices="open").intake
    decode_many(replace(run, values=[encode_json(e) for e in chosen]), intake, scan_events)
    return decode_many(run, intake)

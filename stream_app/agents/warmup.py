"""Compiling the kernels before they are needed: a few events through a small replica of the same
design.

Compiled code is cached beside the source, so only the very first start takes long (some ten
seconds); but neither that time nor the loading may be spent on the event loop, where queries and
heartbeats wait for it. The events take the same way as real ones, from their bytes on, so that
every kernel sees the same types.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from prometheus_client import CollectorRegistry

from stream_app.monitoring.gauges import Gauges
from stream_app.monitoring.metrics import Metrics
from stream_app.serving.catalogue import Catalogue
from stream_app.serving.recommender import Recommender
from stream_app.state.replica import Replica, StateSpec
from stream_app.wire import Batch, Event, RecordRun, decode_many, encode, partitions_of

# As many as it takes to make tables grow, and to let qoLSH shorten a list instead of scanning all.
_DEVICES, _ITEMS = 1500, 2600


def warm_up(design: StateSpec, index: str = "exact", code_bits: int = 256) -> None:
    """Run every kernel that a worker of this design calls, on invented events."""
    small = {"sketch_bytes": 1 << 16, "scalars_bytes": 1 << 14, "seen_bytes": 1 << 14}
    replica = Replica(replace(design, held_out=0.3, **small))  # type: ignore[arg-type]
    recommender = Recommender(replica, Catalogue(), index, code_bits)
    gauges = Gauges(Metrics(CollectorRegistry()), replica, recommender)
    events = _events(design)
    for partition in range(design.partitions):
        batch = _decoded(events, partition, design)
        outcome = replica.apply(batch)
        gauges.watch(outcome)
        recommender.mark_stale(outcome.rows)
    replica.end_round(1, (1,) * design.partitions)
    replica.ledger_digest()
    gauges.publish()
    gauges.publish_fill()
    for device in (events[0].device, bytes(16)):
        recommender.answer(device, 2)
        recommender.recall(device, 2)
    replica.forget(events[0].device)
    replica.apply(_decoded(events, 0, design))  # again: duplicates, and a device to be refused


def _events(design: StateSpec) -> list[Event]:
    random = np.random.default_rng(0)
    made = []
    for i in range(_DEVICES):
        mechanism = design.mechanisms[i % len(design.mechanisms)]
        items = ((np.arange(4) * _DEVICES + i) % _ITEMS).astype(np.uint64)
        masks = np.ones(4, np.uint16) if mechanism.masks else None
        reports = np.zeros(4, np.uint8)
        made.append(Event(random.bytes(16), 1, mechanism.id, 0, items, reports, masks=masks))
    return made


def _decoded(events: list[Event], partition: int, design: StateSpec) -> Batch:
    keys = np.frombuffer(b"".join([event.key for event in events]), np.uint8).reshape(-1, 32)
    places = partitions_of(keys, design.partitions)
    mine = [event for event, place in zip(events, places, strict=True) if place == partition]
    run = RecordRun(partition, range(len(mine)), [e.key for e in mine], [encode(e) for e in mine])
    return decode_many(run, design.intake)

"""Compiling the kernels before they are needed: a few events through a small replica of the same
design.

Compiled code is cached beside the source, so only the very first start takes long (tens of
seconds); but that
time must not be spent on the event loop, where a worker would miss its heartbeats.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stream_app.catalogue import Catalogue
from stream_app.recommender import Recommender
from stream_app.replica import Design, Replica
from stream_app.wire import Batch


def warm_up(design: Design, index: str = "exact", code_bits: int = 256) -> None:
    """Run every kernel that a worker of this design calls, on a few invented events."""
    small = {"sketch_bytes": 1 << 16, "scalars_bytes": 1 << 14, "seen_bytes": 1 << 14}
    replica = Replica(replace(design, **small))  # type: ignore[arg-type]
    recommender = Recommender(replica, Catalogue(), index, code_bits)
    device = np.arange(2, dtype=np.uint64).reshape(1, 2) + np.uint64(7)
    for seq, mechanism in enumerate(range(len(design.mechanisms)), 1):
        batch = Batch(
            0,
            np.array([seq - 1], np.int64),
            np.array([1], np.int64),
            device,
            np.array([seq], np.int64),
            np.array([mechanism], np.uint8),
            np.array([3], np.int64),
            np.zeros(1, np.uint8),
            np.arange(3, dtype=np.uint64),
            np.zeros(3, np.uint8),
        )
        outcome = replica.apply(batch)
        recommender.touched(outcome.rows)
        replica.learner.residuals(outcome.users, outcome.items, outcome.reports, outcome.mechanisms)
    replica.end_round(1, (1,) * design.partitions)
    recommender.refresh()
    recommender.answer(device.astype("<u8").tobytes(), 2)
    recommender.answer(bytes(16), 2)
    replica.second_moment.estimate()

"""What items cost a worker, without a broker: seconds of a message that names new ones, resident
bytes of each, and what the event loop does about all of them at a cut.

    message    CPU of decoding nothing and applying 4,096 ratings of one device, gauges and lists
               included: of new items at random, of new items whose keys collide under the public
               hash, and of items that find no free row
    bytes      growth of the resident memory over the items that took a row, and over ten times as
               many that did not
    cut        longest end of a round while items take the rows of others, and the first list of
               popular items after it
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry

from stream_app.agents.warmup import warm_up
from stream_app.monitoring.gauges import Gauges
from stream_app.monitoring.metrics import Metrics
from stream_app.privacy.ratings.randomized_response import RandomizedResponse
from stream_app.serving.catalogue import Catalogue
from stream_app.serving.recommender import Recommender
from stream_app.state.replica import Replica, StateSpec
from stream_app.wire import Batch
from tests.benchmarks.figure import Figure
from tests.fixtures.collisions import crafted

SPEC = StateSpec((RandomizedResponse(5, Fraction(2)),), partitions=1)
_CELLS = 4096
_MESSAGES = SPEC.items_most // _CELLS
_FLOOD = 10 * _MESSAGES


class Worker:
    """What a worker does with a batch, without its threads."""

    def __init__(self) -> None:
        self.replica = Replica(SPEC)
        self.recommender = Recommender(self.replica, Catalogue())
        self.gauges = Gauges(Metrics(CollectorRegistry()), self.replica, self.recommender)
        self._random = np.random.default_rng(1)
        self._sent = 0

    def learn(self, items: NDArray[np.uint64]) -> float:
        """Apply a message of a new device; return its CPU seconds."""
        self._sent += 1
        zero, many = np.zeros(1, np.uint8), len(items)
        devices = self._random.integers(0, 2**64, (1, 2), dtype=np.uint64)
        reports = self._random.integers(0, 5, many).astype(np.uint8)
        batch = Batch(
            0, np.array([self._sent]), np.array([9 * many]), devices, np.array([1]), zero,
            np.array([many]), zero, np.zeros(1, np.int64), items, reports,
            np.zeros(many, np.uint16),
        )  # fmt: skip
        return seconds(lambda: self._apply(batch))

    def _apply(self, batch: Batch) -> None:
        outcome = self.replica.apply(batch)
        self.gauges.watch(outcome)
        self.recommender.mark_stale(outcome.rows)

    def end_round(self) -> float:
        """End a round; return the CPU seconds of it and of a list of popular items."""
        return seconds(self._end_round)

    def _end_round(self) -> None:
        replaced = self.replica.end_round(self.replica.cut + 1, (self._sent,))
        self.gauges.replaced(replaced)
        self.recommender.replaced(replaced)
        self.recommender.answer(bytes(16), 100)


def measure() -> list[Figure]:
    """Return the figures."""
    warm_up(SPEC)
    random = np.random.default_rng(2)
    chosen = crafted(SPEC.items_most)
    at_random = random.integers(0, 2**64, SPEC.items_most, dtype=np.uint64)
    worker = Worker()
    for array in worker.replica.model_arrays().values():
        array[...] = array.copy()  # memory of a fixed size is no memory of an item
    before, parts = resident(), sum(worker.gauges.memory().values())
    for part in at_random.reshape(-1, _CELLS):
        worker.learn(part)
    grown = resident() - before
    parts = sum(worker.gauges.memory().values()) - parts
    flood = [worker.learn(new) for new in messages(random, 1)]
    rowless = resident() - before - grown
    cuts = []
    for new in messages(random, 8):
        worker.learn(new)
        cuts.append(worker.end_round())
    costs = [filled(items) for items in (at_random, chosen)]
    return [
        Figure("message of 4,096 new items at random, on average", costs[0] * 1e3, "ms"),
        Figure("the same, crafted keys", costs[1] * 1e3, "ms"),
        Figure("the same, crafted / random", costs[1] / costs[0], "", "<= 3"),
        Figure("the same, items without a row", float(np.mean(flood)) * 1e3, "ms"),
        Figure("resident bytes of an item with a row", grown / SPEC.items_most, "B"),
        Figure("the same, as the parts say", parts / SPEC.items_most, "B"),
        Figure("resident bytes of an item without a row", rowless / (_FLOOD * _CELLS), "B"),
        Figure("longest cut, rows changing hands", max(cuts) * 1e3, "ms", "<= 50"),
    ]  # fmt: skip


def filled(items: NDArray[np.uint64]) -> float:
    """Return the mean seconds of the messages that fill every row of a new worker."""
    worker = Worker()
    return float(np.mean([worker.learn(part) for part in items.reshape(-1, _CELLS)]))


def messages(random: np.random.Generator, times: int) -> Iterator[NDArray[np.uint64]]:
    """Yield messages of new items, each item reported `times` times."""
    for _ in range(_FLOOD // times):
        yield np.repeat(random.integers(0, 2**64, _CELLS // times, dtype=np.uint64), times)


def seconds(work: Callable[[], None]) -> float:
    """Return the CPU seconds that `work` takes."""
    began = time.process_time()
    work()
    return time.process_time() - began


def resident() -> int:
    """Return the resident bytes of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return 4096 * pages

"""What invented devices cost a worker, without a broker: bytes of each, whether or not they are
evicted, and what an eviction costs the event loop.

    bytes      growth of the state by its parts, of its arrays (what a checkpoint holds) and of the
               resident memory, over new devices with one rating each
    days       the same number of new devices on each of ten days, where cuts accept two days: rows
               and resident memory at the end
    cut        longest end of a round while devices are evicted, and the time for a million rows
"""

from __future__ import annotations

import numpy as np
from prometheus_client import CollectorRegistry

from stream_app.agents.warmup import warm_up
from stream_app.monitoring.gauges import Gauges
from stream_app.monitoring.metrics import Metrics
from stream_app.serving.catalogue import Catalogue
from stream_app.serving.recommender import Recommender
from stream_app.state.replica import Replica
from stream_app.wire import Batch
from tests.benchmarks.figure import Figure
from tests.benchmarks.items import SPEC, resident, seconds

_DEVICES, _RECORDS, _DAYS = 200_000, 2000, 10


class Worker:
    """A replica that gets records of new devices, one rating each."""

    def __init__(self) -> None:
        self.replica = Replica(SPEC)
        recommender = Recommender(self.replica, Catalogue())
        self._gauges = Gauges(Metrics(CollectorRegistry()), self.replica, recommender)
        self._random, self._sent = np.random.default_rng(1), 0
        for array in self.replica.model_arrays().values():
            array[...] = array.copy()  # memory of a fixed size is no memory of a device

    def flood(self, day: int, days: tuple[int, int] | None) -> list[float]:
        """Apply records of `_DEVICES` new devices, and return the CPU seconds of each cut."""
        return [self._round(day, days) for _ in range(_DEVICES // _RECORDS)]

    def _round(self, day: int, days: tuple[int, int] | None) -> float:
        n, random = _RECORDS, self._random
        self._sent += n
        zeros, ones = np.zeros(n, np.uint8), np.ones(n, np.int64)
        self.replica.apply(
            Batch(
                0, np.arange(self._sent - n, self._sent), 100 * ones,
                random.integers(0, 2**64, (n, 2), dtype=np.uint64), ones, zeros, ones, zeros,
                day * ones, random.integers(0, 1000, n, dtype=np.uint64),
                random.integers(0, 5, n).astype(np.uint8), np.zeros(n, np.uint16), days,
            )
        )  # fmt: skip
        return seconds(lambda: self.end_round(days))

    def end_round(self, days: tuple[int, int] | None) -> None:
        """End a round."""
        self.replica.end_round(self.replica.cut + 1, (self._sent,), days)

    def sizes(self) -> np.ndarray:
        """Return the bytes of the parts, of the arrays, and resident."""
        arrays = sum(array.nbytes for array in self.replica.model_arrays().values())
        return np.array([sum(self._gauges.memory().values()), arrays, resident()], float)


def measure() -> list[Figure]:
    """Return the figures."""
    warm_up(SPEC)
    kept, evicting = Worker(), Worker()
    start = kept.sizes()
    plain = kept.flood(0, None)
    parts, arrays, held = ((kept.sizes() - start) / _DEVICES).tolist()
    start, cuts = evicting.sizes(), list[float]()
    for day in range(_DAYS):
        cuts += evicting.flood(day, (max(0, day - 1), day + 1))
    bounded = float((evicting.sizes() - start)[2])
    passes = 0
    evicting.replica.marks.accept((_DAYS + 1, _DAYS + 2))
    while evicting.replica.marks.devices:
        cuts.append(seconds(lambda: evicting.end_round((_DAYS + 1, _DAYS + 2))))
        passes += 1
    rows = len(evicting.replica.marks)
    return [
        Figure("bytes of a device with one rating, by the parts", parts, "B"),
        Figure("the same, in a checkpoint", arrays, "B"),
        Figure("the same, resident", held, "B"),
        Figure("new devices a day, ten days", _DEVICES, ""),
        Figure("rows at the end, cuts accept two days", rows, "", f"<= {4 * _DEVICES}"),
        Figure("resident bytes at the end, of each device of a day", bounded / _DEVICES, "B"),
        Figure("longest cut without eviction", max(plain) * 1e3, "ms"),
        Figure("longest cut that evicts", max(cuts) * 1e3, "ms", "<= 50"),
        Figure("CPU of evicting a row", sum(cuts[-passes:]) / rows * 1e9, "ns"),
    ]  # fmt: skip

"""The choice of an index by measurement."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from stream_app.models.retrieval import faster_index
from stream_app.models.retrieval.faster_index import is_clearly_faster, new_index


class Slow:
    """An index whose search takes so many ticks of the test's clock."""

    def __init__(self, ticks: int) -> None:
        self.ticks = ticks

    def search(self, *_: object) -> None:
        for _ in range(self.ticks):
            next(CLOCK)


CLOCK = itertools.count()


@pytest.mark.parametrize(
    ("first", "second", "wanted"), [(100, 70, True), (100, 90, False), (5, 50, False)]
)
def test_the_clearly_faster_one_is_preferred(monkeypatch, first, second, wanted):
    monkeypatch.setattr(faster_index.time, "perf_counter", lambda: float(next(CLOCK)))
    queries = np.zeros((4, 3), np.float32)
    assert is_clearly_faster(Slow(first), Slow(second), queries) is wanted  # type: ignore[arg-type]


def test_a_worker_measures_the_real_indexes():
    index = new_index("auto", 8, 256, 1)
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((1100, 8)).astype(np.float32)
    index.update(np.arange(1100), vectors, np.zeros(1100, np.float32))
    assert index.method in ("exact", "pca")
    assert index.size == 1100

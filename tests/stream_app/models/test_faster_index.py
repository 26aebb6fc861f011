"""The choice of an index by measurement."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from stream_app.models.retrieval import auto_index
from stream_app.models.retrieval.auto_index import (
    AutoIndex,
    everything,
    is_clearly_faster,
    new_index,
)
from stream_app.models.retrieval.index import ExactIndex, ServiceLevel, StoredIndex, recall
from stream_app.models.retrieval.pca_index import PCAIndex


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
    monkeypatch.setattr(auto_index.time, "perf_counter", lambda: float(next(CLOCK)))
    queries = np.zeros((4, 3), np.float32)
    assert is_clearly_faster(Slow(first), Slow(second), queries) is wanted  # type: ignore[arg-type]


def test_a_worker_measures_the_real_indexes():
    index = new_index("auto", 8, 256, 1)
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((1100, 8)).astype(np.float32)
    index.update(np.arange(1100), vectors, np.zeros(1100, np.float32))
    assert index.method in ("exact", "pca")
    assert index.size == 1100


def always(*_: object) -> bool:
    return True


def without_a_spectrum(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return vectors of which no axis is principal, and biases."""
    rng = np.random.default_rng(6)
    return rng.standard_normal((n, 32), np.float32), np.zeros(n, np.float32)


def recall_of(index: StoredIndex, vectors: np.ndarray, biases: np.ndarray) -> float:
    """Return the mean recall of the first 100 for queries that are no items."""
    exact = ExactIndex(32)
    exact.update(np.arange(len(vectors)), vectors, biases)
    queries = np.random.default_rng(7).standard_normal((40, 32), np.float32)
    pairs = ([i.search(p, 100, everything)[1] for i in (index, exact)] for p in queries)
    return float(np.mean([recall(found, true) for found, true in pairs]))


@pytest.mark.parametrize(
    ("n", "asked", "method"),
    [(5000, 0.99, "exact"), (5000, 0.8, "pca"), (20_000, 0.9, "pca")],
)
def test_the_first_answers_have_the_recall_that_is_asked_for(n, asked, method):
    """Measured 1, .963 and .980; a shortlist of the first length finds .715, .715 and .516."""
    vectors, biases = without_a_spectrum(n)
    index = AutoIndex(32, is_faster=always)
    index.level = ServiceLevel(asked)
    index.update(np.arange(n), vectors, biases)
    assert recall_of(index, vectors, biases) >= asked
    assert index.method == method


def test_recall_is_measured_again_as_the_catalogue_grows():
    """Of 20,000 items a shortlist of the first length finds .516."""
    compared: list[int] = []

    def is_faster(exact, pca, queries):
        compared.append(pca.level.factor)
        return True

    vectors, biases = without_a_spectrum(20_000)
    index = AutoIndex(32, is_faster=is_faster)
    level = index.level = ServiceLevel(0.6)
    for rows in np.split(np.arange(20_000), 16):
        index.update(rows, vectors[rows], biases[rows])
    assert recall_of(index, vectors, biases) >= 0.6
    assert (index.method, level.factor) == ("pca", compared[-1])
    assert compared == sorted(set(compared)), (
        "compared where the shortlist is longer, and only then"
    )
    assert len(compared) > 1


def test_a_look_at_the_items_leaves_the_level_alone_where_search_stays_exact():
    index = AutoIndex(32, is_faster=lambda *_: False)
    level = index.level = ServiceLevel(0.9)
    index.update(np.arange(5000), *without_a_spectrum(5000))
    assert (index.method, level.factor) == ("exact", 1)


def test_recall_is_measured_with_few_searches(monkeypatch):
    """Each length that is too short is given up at the query by which too much is lost."""
    searches = {"exact": 0, "pca": 0}
    for kind in (ExactIndex, PCAIndex):

        def search(self, *given, search=kind.search):
            searches[self.method] += 1
            return search(self, *given)

        monkeypatch.setattr(kind, "search", search)
    index = AutoIndex(32, is_faster=always)
    index.update(np.arange(40_000), *without_a_spectrum(40_000))
    assert index.method == "exact"
    assert searches["exact"] == 16
    assert searches["pca"] < 40

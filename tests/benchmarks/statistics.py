"""Keys per second that the statistics accept, in batches of 1,000, in process CPU time."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from stream_app.models.sketches import AmsSketch, CountMinSketch, SeenFilter
from stream_app.state.high_water_marks import HighWaterMarks
from tests.benchmarks.figure import Figure
from tests.naive import statistics as naive

BATCH, KEYS, REPEATS = 1000, 500_000, 7


def best_seconds(run: Callable[[], object], repeats: int = REPEATS) -> float:
    """Return the least CPU time of a run, after one that compiles."""
    run()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def rate(add: Callable[..., object], *columns: np.ndarray) -> float:
    """Return millions of rows a second."""
    batches = [
        [column[i : i + BATCH] for column in columns] for i in range(0, len(columns[0]), BATCH)
    ]

    def run() -> None:
        for batch in batches:
            add(*batch)

    return len(columns[0]) / best_seconds(run) / 1e6


def marks_rate(devices: np.ndarray) -> float:
    rows = np.arange(KEYS) % len(devices)
    seqs = np.arange(KEYS) // len(devices) + 1
    columns = devices[rows], seqs, seqs, np.ones(KEYS, np.bool_)

    def run() -> None:
        marks = HighWaterMarks(seed=1)
        for i in range(0, KEYS, BATCH):
            marks.advance(*(column[i : i + BATCH] for column in columns))

    return KEYS / best_seconds(run) / 1e6


def naive_rate(users: np.ndarray, items: np.ndarray) -> float:
    pairs = list(zip(users[:2000].tolist(), items[:2000].tolist(), strict=True))

    def run() -> None:
        seen = naive.Seen(2**15, 1)
        for user, item in pairs:
            seen.add(user, item)

    return len(pairs) / best_seconds(run, 3) / 1e6


def measure() -> list[Figure]:
    """Return millions of keys a second for each sketch, in cache and beyond it."""
    rng = np.random.default_rng(1)
    users = rng.integers(0, 2**64, KEYS, dtype=np.uint64)
    items = rng.integers(0, 4000, KEYS).astype(np.uint64)
    devices = rng.integers(0, 2**64, (2000, 2), dtype=np.uint64)
    small, large = SeenFilter(2**20), SeenFilter(2**26)
    add = rate(small.add_many, users, items)
    slow = naive_rate(users, items)
    return [
        Figure("seen add, 1 MiB", add, "M/s", ">= 20"),
        Figure("seen add, 1 MiB, over the naive version", add / slow, "ratio", ">= 100"),
        Figure("seen add, 64 MiB", rate(large.add_many, users, items), "M/s"),
        Figure("seen test, 1 MiB", rate(small.test_many, users, items), "M/s"),
        Figure(
            "count-min add, 4 rows of 2^16", rate(CountMinSketch().add_many, items), "M/s", ">= 15"
        ),
        Figure(
            "count-min add, 4 rows of 2^20", rate(CountMinSketch(4, 2**20).add_many, users), "M/s"
        ),
        Figure("AMS add, 5 rows of 256", rate(AmsSketch().add_many, items), "M/s", ">= 15"),
        Figure("marks advance, 2,000 devices", marks_rate(devices), "M/s", ">= 10"),
    ]

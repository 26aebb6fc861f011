"""Sketches beside those of rbloom (Rust) and datasketches (C++), integer keys in batches of 1,000.

    Bloom filter, add    SeenFilter.add_many     rbloom.Bloom.update, given a list of the batch
    Bloom filter, test   SeenFilter.test_many    `key in bloom` for every key, by `map`
    count-min            CountMinSketch          count_min_sketch.update, once a key
    AMS (F2)             AmsSketch               the same: datasketches has no second moment

Both filters hold KEYS keys at a false positive ratio of RATIO; half of the keys tested were added.
Ours take arrays (and pairs of a user and an item), the others Python integers, which are made
before the clock starts. What rbloom is measured to find wrongly is a figure, too.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from stream_app.models.sketches import (
    BLOCK_BYTES,
    AmsSketch,
    CountMinSketch,
    SeenFilter,
    bloom_blocks,
)
from tests.benchmarks import contest
from tests.benchmarks.contest import Contender, Seconds, not_installed
from tests.benchmarks.figure import Figure

BATCH, KEYS, RATIO = 1000, 200_000, 0.01
TIMES = 20  # passes of ours over the keys in a round
DEPTH, WIDTH = 4, 2**16
RBLOOM, DATASKETCHES = "rbloom, {}", "datasketches count-min"


def measure() -> list[Figure]:
    """Return millions of keys a second of all, and how many times faster ours are."""
    added, fresh, items = _keys()
    figures: list[Figure] = []
    figures += _filters(added, fresh)
    figures += _counters(items)
    return figures


def expected_false_positive_ratio(pairs: int, size_bytes: int) -> float:
    """Return the false positive ratio to expect from `pairs` distinct pairs in `size_bytes`."""
    blocks = size_bytes // BLOCK_BYTES
    if pairs < 0 or blocks < 1:
        raise ValueError(f"{pairs} pairs in {size_bytes} bytes: at least 0 and {BLOCK_BYTES}")
    # Expand (1 - r^n)^8 binomially: E[r^(kn)] of a binomial n is ((1 - 1/B) + r^k / B)^pairs.
    terms = (
        (-1) ** k
        * math.comb(bloom_blocks.WORDS, k)
        * math.exp(pairs * math.log1p(((31 / 32) ** k - 1) / blocks))
        for k in range(bloom_blocks.WORDS + 1)
    )
    return max(0.0, math.fsum(terms))


def filter_bytes(keys: int, ratio: float) -> int:
    """Return the least bytes, a multiple of 32, that keep `ratio` with so many keys."""
    low, high = 1, keys
    while low < high:
        middle = (low + high) // 2
        if expected_false_positive_ratio(keys, 32 * middle) <= ratio:
            high = middle
        else:
            low = middle + 1
    return 32 * low


def _keys() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return users of pairs added, users of pairs not added, and items of ratings: (KEYS,) each."""
    rng = np.random.default_rng(1)
    users = rng.permutation(rng.integers(0, 2**63, 2 * KEYS, dtype=np.uint64))
    items = (rng.zipf(1.2, KEYS) % 50_000).astype(np.uint64)
    return users[:KEYS], users[KEYS:], items


def _batches(*columns: np.ndarray) -> list[list[np.ndarray]]:
    return [[column[i : i + BATCH] for column in columns] for i in range(0, len(columns[0]), BATCH)]


def _ours(add: Callable[..., object], *columns: np.ndarray) -> Callable[[Any], object]:
    """Return a run of TIMES passes over the batches."""
    batches = _batches(*columns)

    def run(_: Any) -> None:
        for _ in range(TIMES):
            for batch in batches:
                add(*batch)

    return run


def _filters(added: np.ndarray, fresh: np.ndarray) -> list[Figure]:
    item = np.full(KEYS, 7, np.uint64)
    seen = SeenFilter(filter_bytes(KEYS, RATIO))
    seen.add_many(added, item)
    mixed = np.where(np.arange(KEYS) % 2 == 0, added, fresh)
    add, test = "Bloom filter, add", "Bloom filter, test"
    contenders = [
        Contender(add, _ours(seen.add_many, added, item), TIMES * KEYS),
        Contender(test, _ours(seen.test_many, mixed, item), TIMES * KEYS),
    ]
    wrong = [Figure("false positives, ours", float(seen.test_many(fresh, item).mean()), "share")]
    rbloom = contest.peer("rbloom")
    if rbloom is not None:
        theirs = rbloom.Bloom(KEYS, RATIO)
        lists = [batch.tolist() for (batch,) in _batches(added)]
        tested = [batch.tolist() for (batch,) in _batches(mixed)]

        def update(_: Any) -> None:
            for batch in lists:
                theirs.update(batch)

        def contains(_: Any) -> None:
            for batch in tested:
                deque(map(theirs.__contains__, batch), 0)

        update(None)
        contenders += [
            Contender(RBLOOM.format(add), update, KEYS),
            Contender(RBLOOM.format(test), contains, KEYS),
        ]
        found = sum(key in theirs for key in fresh.tolist()) / KEYS
        wrong.append(Figure("false positives, rbloom", found, "share"))
    seconds = contest.contest(contenders)
    figures = [each.rate("M/s", 1e-6) for each in seconds.values()] + wrong
    if rbloom is None:
        return [*figures, not_installed("the same of rbloom", "rbloom")]
    return figures + [
        seconds[name].times_faster_than(seconds[RBLOOM.format(name)], target=">= 2.5")
        for name in (add, test)
    ]


def _counters(items: np.ndarray) -> list[Figure]:
    counts, moment = f"count-min add, {DEPTH} rows of {WIDTH:,}", "AMS add, 5 rows of 256"
    contenders = [
        Contender(counts, _ours(CountMinSketch(DEPTH, WIDTH).add_many, items), TIMES * KEYS),
        Contender(moment, _ours(AmsSketch().add_many, items), TIMES * KEYS),
    ]
    library = contest.peer("datasketches")
    if library is not None:
        contenders.append(_updates(library, items))
    seconds: dict[str, Seconds] = contest.contest(contenders)
    figures = [each.rate("M/s", 1e-6) for each in seconds.values()]
    if library is None:
        return [*figures, not_installed("the same of datasketches", "datasketches")]
    theirs = seconds[DATASKETCHES]
    return [
        *figures,
        seconds[counts].times_faster_than(theirs, target=">= 20"),
        seconds[moment].times_faster_than(theirs, target=">= 5"),
    ]


def _updates(library: Any, items: np.ndarray) -> Contender:
    sketch, keys = library.count_min_sketch(DEPTH, WIDTH), items.tolist()
    return Contender(DATASKETCHES, lambda _: deque(map(sketch.update, keys), 0), KEYS)

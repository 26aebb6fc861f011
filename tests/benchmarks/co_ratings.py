"""Co-ratings counted per CPU second of one thread: MovieLens-1M, lists of 128 items, head of 2,048.

Counts, differences and products, as Slope One and cosine need them; an entry that leaves a full
list takes its pairs out again. One rating a message in time order and 200 a message, as in
`cooccurrence`; the naive version counts the same ratings in dictionaries. `apply` is the state
without Kafka, with co-ratings and without; the table is the symmetric form, made from a copy.
"""

from __future__ import annotations

import time

import numpy as np

from stream_app.models.cooccurrence.co_ratings import CoRatings
from stream_app.models.cooccurrence.item_pairs import RecordColumns
from stream_app.models.cooccurrence.report_values import ReportValues
from stream_app.models.factorization.channels import Channels
from tests.benchmarks.cooccurrence import HEAD, MECHANISM, RECENT, apply_rate, columns, packed_order
from tests.benchmarks.cooccurrence import rate as pairs_rate
from tests.benchmarks.figure import Figure
from tests.fixtures.movielens import load, skipped
from tests.naive import co_ratings as naive

NAIVE = 300
CHANNELS = Channels.from_mechanisms([MECHANISM])


def measure() -> list[Figure]:
    """Return counted ratings per CPU second, and the cost to the whole state."""
    ratings = load()
    if ratings is None:
        return skipped("co-ratings counted per second")
    single, packed = columns(ratings, 1), columns(packed_order(ratings, 200), 200)
    (one, filled), (many, _) = rate(single), rate(packed)
    off, on = (
        apply_rate(ratings, str(MECHANISM.id), HEAD, co_ratings=given) for given in (False, True)
    )
    began = time.process_time()
    filled.snapshot(np.arange(HEAD, dtype=np.uint64), 1).table()
    made = time.process_time() - began
    return [
        Figure(
            "co-ratings counted, W = 128, 1 rating a message", one / 1e6, "M ratings/s", ">= .12"
        ),
        Figure("the same, 200 a message", many / 1e6, "M ratings/s", ">= .12"),
        Figure("against the naive version", one / naive_rate(single), "x", ">= 20"),
        Figure("time of a co-rating, in pairs counted", pairs_rate(single) / one, "x"),
        Figure(
            "state applied, 200 a packed message, rr:5:2, co-ratings on", on / 1e6, "M ratings/s"
        ),
        Figure("the same, time with co-ratings, in times without", off / on, "x"),
        Figure("table of 2,048 items from a copy", made, "s"),
    ]


def slots_of(batches: list[RecordColumns]) -> np.ndarray:
    """Return the slot of each item: the most rated of all have one, the first rated before."""
    rows = np.concatenate([batch.rows for batch in batches])
    counts = np.bincount(rows)
    chosen = np.argsort(-counts, kind="stable")[:HEAD]
    firsts = dict(zip(*np.unique(rows, return_index=True), strict=True))
    slots = np.full(len(counts), -1, np.int16)
    slots[sorted(chosen.tolist(), key=lambda item: int(firsts[item]))] = np.arange(len(chosen))
    return slots


def rate(batches: list[RecordColumns]) -> tuple[float, CoRatings]:
    """Return ratings a CPU second, the best of three, and the state."""
    slots, best = slots_of(batches), 0.0
    devices = 1 + max(int(batch.devices.max()) for batch in batches)
    for _ in range(3):
        co = CoRatings(CHANNELS, HEAD, RECENT)
        co.extend(devices)
        began = time.process_time()
        for batch in batches:
            co.count(batch, slots)
        seconds = time.process_time() - began
        best = max(best, sum(len(batch.rows) for batch in batches) / seconds)
    return best, co


def naive_rate(batches: list[RecordColumns]) -> float:
    """Return ratings a CPU second of the naive version, on lists that are full."""
    slow = naive.CoRatings(RECENT // 16, ReportValues.from_channels(CHANNELS).fixed.tolist())
    for slot in range(RECENT):
        slow.rate(0, HEAD + slot, slot % 5)
    slots, first = slots_of(batches), batches[0]
    began = time.process_time()
    for item, report in zip(first.rows[:NAIVE].tolist(), first.reports.tolist(), strict=False):
        slow.rate(0, int(slots[item]), report)
    return NAIVE / (time.process_time() - began)

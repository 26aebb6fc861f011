"""Ratings that several shards learn per CPU second, the exchange of their changes included.

A generated population of 200,000 users and 10,000 items; the second half of 10 M ratings counts.
All shards learn the stream first; then one of them runs again by itself, as on a machine of its
own, with the changes that the others had published. Efficiency is the capacity over that of one
worker, times the number of shards. A round holds as many ratings of each shard, whatever their
number: all of them are at their capacity.
"""

from __future__ import annotations

import numpy as np

from stream_app.models.factorization.joining import Meetings
from stream_app.privacy import registry
from stream_app.state.replica import StateSpec
from tests.benchmarks.figure import Figure
from tests.fixtures.shards import Shards, Stream, alone

USERS, RATINGS, STEP, SHARDS = 200_000, 10_000_000, 50_000, (1, 2, 4, 8)


def generated(items: int, ratings: int = RATINGS, users: int = USERS) -> Stream:
    """Return ratings in sessions of eight, of items with a long tail, over twenty days."""
    draw = np.random.default_rng(1)
    weights = np.cumsum(1 / (np.arange(items) + 20.0))
    chosen = np.searchsorted(weights / weights[-1], draw.random(ratings)).astype(np.uint64)
    sessions = draw.integers(users, size=ratings // 8 + 1).astype(np.uint64)
    days = 20_000 + np.arange(ratings) * 20 // ratings
    levels = draw.integers(0, 5, ratings).astype(np.uint8)
    return Stream(np.repeat(sessions, 8)[:ratings], chosen, levels, days)


def spec_of(mechanism: str = "none:5:inf") -> StateSpec:
    """Return a spec of a worker for such a population."""
    return StateSpec(
        (registry.parse(mechanism),), partitions=8, sketch_bytes=64 << 20, scalars_bytes=16 << 20
    )


def measure() -> list[Figure]:
    """Return capacities and efficiencies."""
    stream, figures, one = generated(10_000), [], 0.0
    for shards in SHARDS:
        made = Shards(spec_of(), shards, USERS, Meetings())
        for _ in made.learn(stream, shards * STEP):
            pass
        runs = [alone(made, 0, stream, USERS, shards * STEP) for _ in range(3)]
        seconds = np.min(runs, axis=0)
        capacity = len(stream) / 2 / seconds[len(seconds) // 2 :].sum()
        one = one or capacity
        target = ">= 0.9" if shards > 1 else ""
        figures += [
            Figure(f"ingest, {shards} shards", float(capacity) / 1e6, "M ratings/s"),
            Figure(
                f"ingest, {shards} shards, efficiency", float(capacity / one / shards), "", target
            ),
        ]
        del made
    return figures

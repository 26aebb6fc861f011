"""The smallest excess of epsilon that audits find in 95 % of runs, by number of reports.

Canaries (`murmurec audit canary`): rr:5:2 is claimed and rr:5:e drawn, of inputs that are equally
frequent. The excess is computed from the exact law of the count that is judged, and the audit's own
bound is then run at it. The wire (`murmurec audit wire`): all ratings of random people of
MovieLens-1M, unknown to the observer; the first excess of a grid that is found in 19 of 20 runs at
least. An audit accuses an honest deployment with probability 1e-4; that of the wire has 20 tests.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from consumers.audit import PublicConfiguration, observe
from consumers.audit.canary_check import epsilon_bounds
from consumers.audit.checks.noise_check import least_likely
from consumers.audit.observed import Record, Source
from consumers.audit.tail_check import at_least
from stream_app import wire
from stream_app.privacy import registry
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.randomness import SeededSource
from tests.benchmarks.figure import Figure
from tests.fixtures.movielens import Ratings, load, skipped
from tests.fixtures.streams import partition_of

CLAIMED = registry.parse("rr:5:2")
ALPHA, POWER, TESTS = 1e-4, 0.95, 20
RUNS = {1_000: 200, 10_000: 60, 100_000: 20}  # of canaries
GRID = tuple(Fraction(n, 4) for n in range(1, 13))
WIRE_RUNS, SIZES = 20, (1_000, 10_000, 100_000)


def measure() -> list[Figure]:
    """Return the excesses by number of reports, and how often canaries found theirs."""
    figures = []
    for reports, runs in RUNS.items():
        excess = smallest_excess(reports)
        rng = np.random.default_rng(reports)
        found = sum(canaries_find(excess, reports, rng) for _ in range(runs)) / runs
        figures.append(Figure(f"canaries, {reports:,} reports: smallest excess", float(excess), ""))
        figures.append(Figure(f"canaries, {reports:,} reports: found at it", found, "", ">= 0.85"))
    if (ratings := load()) is None:
        return figures + skipped("excess that the wire shows on MovieLens-1M")
    for reports in SIZES:
        first = next((e for e in GRID if wire_finds(ratings, reports, e)), math.nan)
        figures.append(Figure(f"wire, {reports:,} reports: smallest excess", float(first), ""))
    return figures


def drawn_by(excess: Fraction) -> Mechanism:
    """Return the mechanism that is drawn from instead of the claimed one."""
    return registry.mechanism("rr", 5, Fraction(2) + excess)


def smallest_excess(reports: int) -> Fraction:
    """Return the least excess, in thousandths, at which the first bound exceeds 2 in 95 % of runs:
    right names have a binomial law."""
    limit = math.exp(2) / (math.exp(2) + 4)
    low, high = int(limit * reports), reports
    while high - low > 1:  # the fewest right names that accuse
        middle = (low + high) // 2
        enough = at_least(middle, reports, ALPHA / 4) > limit
        low, high = (low, middle) if enough else (middle, high)
    small, large = 0, 4000
    while large - small > 1:
        middle = (small + large) // 2
        right = math.exp(2 + middle / 1000)
        found = 1 - _below(high, reports, right / (right + 4)) >= POWER
        small, large = (small, middle) if found else (middle, large)
    return Fraction(large, 1000)


def _below(count: int, trials: int, p: float) -> float:
    """Return P(X < count) of a binomial count."""
    logs = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, trials + 1)))))
    seen = np.arange(count)
    terms = logs[trials] - logs[seen] - logs[trials - seen]
    return float(np.exp(terms + seen * math.log(p) + (trials - seen) * math.log1p(-p)).sum())


def canaries_find(excess: Fraction, reports: int, rng: np.random.Generator) -> bool:
    """Return whether one audit shows more than the claimed epsilon."""
    inputs = np.arange(reports) % 5
    law = drawn_by(excess).likelihood()
    drawn = (rng.random((reports, 1)) > law.T[inputs].cumsum(axis=1)).sum(axis=1)
    return epsilon_bounds(inputs, drawn, CLAIMED.likelihood(), ALPHA / 2)[0] > 2


def wire_finds(ratings: Ratings, reports: int, excess: Fraction) -> bool:
    """Return whether at least 19 of 20 audits find it."""
    public, missed = PublicConfiguration((CLAIMED,)), 0
    for seed in range(WIRE_RUNS):
        observed = observe(records(ratings, reports, drawn_by(excess), seed), public)
        (finding,) = least_likely(observed, public)
        missed += (finding.p_value or 0.0) * TESTS >= ALPHA
        if missed > (1 - POWER) * WIRE_RUNS:
            return False
    return True


def records(ratings: Ratings, reports: int, mechanism: Mechanism, seed: int) -> list[Record]:
    """Return the messages, one each, of so many random users that they have these ratings."""
    place_of = np.random.default_rng(seed).permutation(int(ratings.users.max()) + 1)
    chosen = np.argsort(place_of[ratings.users], kind="stable")[:reports]
    users: NDArray[np.uint64] = ratings.users[chosen]
    drawn = mechanism.release(ratings.levels[chosen], SeededSource(seed))
    starts = np.flatnonzero(np.concatenate(([True], users[1:] != users[:-1])))
    found = []
    for rows in np.split(np.arange(reports), starts[1:]):
        device = int(users[rows[0]]).to_bytes(16, "big")
        rows = rows[np.argsort(ratings.items[chosen[rows]])][: wire.MAX_RATINGS]
        event = wire.Event(device, 1, CLAIMED.id, 1, ratings.items[chosen[rows]], drawn[rows])
        place = partition_of(event.key)
        found.append(Record(Source.RATINGS, place, 0, 0, event.key, wire.encode(event)))
    return found

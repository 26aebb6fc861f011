"""How fast qoLSH encodes: against the published time, the obvious version, and from more starts.

The thesis prints 3.89 us per vector at d = 8, L = 16, M = 5 (Balu 2016, table 5.1), on a processor
of its year.
"""

from __future__ import annotations

import numpy as np

from stream_app.models.retrieval.qolsh_index import Encoder
from tests.benchmarks.contest import Contender, contest
from tests.benchmarks.figure import Figure
from tests.naive import retrieval as naive

PUBLISHED = 3.89e-6
FEW = 20
VECTORS = 16_000


def measure() -> list[Figure]:
    """Return rates, their ratios, and what more starts cost and gain."""
    return encoding(8, 16, 5, ">= 40") + encoding(33, 256, 10) + more_starts()


def encoding(factors: int, bits: int, flips: int, target: str = "") -> list[Figure]:
    """Return the rate, the ratio to the published time (at its size) and to the naive version."""
    encoder = Encoder(factors, bits, flips)
    vectors = directions(VECTORS, factors)
    few = vectors[:FEW]
    name = f"qoLSH encode d={factors}, L={bits}, M={flips}"
    seconds = contest(
        [
            Contender(name, lambda _: encoder.encode(vectors), VECTORS),
            Contender("naive", lambda _: [naive.encode(u, encoder._W, flips) for u in few], FEW),
        ]
    )
    ours = seconds[name]
    figures = [ours.rate("M/s", 1e-6)]
    if target:
        ratios = [PUBLISHED / one for one in ours.rounds]
        figures.append(
            Figure(f"{name}, times faster than published 3.89 us", PUBLISHED / ours.median, "x",
                   target, low=min(ratios), high=max(ratios))
        )  # fmt: skip
    return [*figures, ours.times_faster_than(seconds["naive"], f"{name}, over the naive version")]


def more_starts() -> list[Figure]:
    """Return microseconds and mean squared error of codes by the number of starts."""
    vectors = directions(VECTORS, 8)
    figures = []
    for starts, target in ((1, ""), (16, "<= 0.0785"), (64, "<= 0.0739")):
        encoder = Encoder(8, 16, 5, starts=starts)
        name = f"qoLSH encode d=8, L=16, M=5, {starts} starts"
        taken = contest([Contender(name, lambda _, e=encoder: e.encode(vectors), VECTORS)])[name]
        objectives = encoder.encode(vectors).objectives.mean(dtype=np.float64)
        figures += [
            Figure(name, 1e6 * taken.median, "us"),
            Figure(f"{name}, error", 2 - 2 * float(objectives), "MSE", target),
        ]
    return figures


def directions(n: int, factors: int) -> np.ndarray:
    """Return n vectors of length 1, (n, factors) float32."""
    vectors = np.random.default_rng(1).standard_normal((n, factors))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)

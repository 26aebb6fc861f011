"""Speed of exact discrete Gaussian noise, one thread, the source of words included.

The peer is the rational sampler of Canonne, Kamath and Steinke 2020 (algorithm 3), which has the
same law, in the same run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from fractions import Fraction

from stream_app.privacy.gaussian.keyed_source import KeyedSource
from stream_app.privacy.gaussian.sampling import GaussianTable, discrete_gaussian
from stream_app.privacy.randomness import SystemSource
from tests.benchmarks.figure import Figure
from tests.naive.exact_samplers import Words
from tests.naive.exact_samplers import discrete_gaussian as rational

DRAWS = 1_000_000
RATIONAL = 2_000
REPEATS = 7
DEVIATIONS = (1_000, 2**14, 2**16)


def measure() -> list[Figure]:
    """Return rates and times of the processor, the best of several runs."""
    figures = []
    for deviation in DEVIATIONS:
        variance, name = Fraction(deviation**2), f"discrete Gaussian, sigma {deviation:,}"
        table = _best(lambda v=variance: GaussianTable(v), 2)
        drawn = DRAWS / _best(lambda v=variance: discrete_gaussian(v, DRAWS, SystemSource()))
        keyed = DRAWS / _best(
            lambda v=variance: discrete_gaussian(v, DRAWS, KeyedSource(bytes(32)))
        )
        peer = RATIONAL / _best(lambda v=variance: _rational(v))
        figures += [
            Figure(f"{name}: os.urandom", drawn / 1e6, "M/s", ">= 5"),
            Figure(f"{name}: words of a key", keyed / 1e6, "M/s", ">= 5"),
            Figure(f"{name}: against the rational sampler", drawn / peer, "x", ">= 100"),
            Figure(f"{name}: table built", table, "s"),
        ]
    return figures


def _rational(variance: Fraction) -> None:
    words = Words(SystemSource())
    for _ in range(RATIONAL):
        rational(variance, words)


def _best(run: Callable[[], object], repeats: int = REPEATS) -> float:
    best = float("inf")
    for _ in range(repeats):
        started = time.process_time()
        run()
        best = min(best, time.process_time() - started)
    return best

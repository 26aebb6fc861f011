"""The k best of n scores, released one after another without noise in floating point.

With independent Gumbel variables G_j the ordered list of the k largest  c f_j + G_j  has the law of
k exponential mechanisms, each of which takes out what it chose (Durfee and Rogers 2019, Lemma 4.2):

    P(next = j) = e^(c f_j) / sum over what is left,     c = epsilon / (2 k Delta)

A float of a Gumbel variable reveals more than its law (Mironov 2012), so no variable is drawn. The
scores are put on levels, and the law is sampled with integers:

    w        = (Delta + 2 rounding) (1 + 2^-20) / steps              width of a level
    level_j  = floor((clip(f_j, low, high) - low) / w)        neighbours: at most `steps` apart
    T[0]     = 2^64,  T[l + 1] = floor(T[l] r),  r <= e^(epsilon / (2 k steps)) a rational
    P(next = j) = T[level_j] / sum over what is left                 exactly

Guarantee: for two inputs whose scores differ by at most Delta in EVERY item (L-infinity), numerator
and denominator change by a factor of at most e^(epsilon / 2k) each, so that a choice costs
epsilon / k and the ordered list costs epsilon, without a delta. `monotone`: all scores change in
one direction, so the factors of numerator and denominator oppose each other and c is twice as
large. `rounding` bounds the error of a computed score, which moves a score like a neighbour does;
the margin 2^-20 is above the error of the division, 2^-38 of a level. Only ids and their order may
be released. The time of a draw depends on the number of distinct levels.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import ArrayLike, NDArray

from research.score_noise.k_subset import ROUNDING, check_epsilon, check_scores
from stream_app.privacy.exact.gaussian_calibration import exponential
from stream_app.privacy.randomness import RandomSource

MOST_LEVELS = 8_192
MOST_NATS = 10_000.0  # between the lowest and the highest level; beyond, nothing is protected
_STEPS = 16
_MARGIN = 1 + 2.0**-20
_UNIT = 1 << 64


@dataclass(frozen=True)
class GumbelTopK:
    """The ordered k best of scores between the public bounds `low` and `high`.

    sensitivity: Delta, how far one neighbour moves any score. Raises ValueError for values outside
    their range, and for scores so fine or epsilon so large that the integers would not fit.
    """

    k: int
    epsilon: Fraction
    sensitivity: float
    low: float
    high: float
    rounding: float = ROUNDING
    monotone: bool = False

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if self.k < 1:
            raise ValueError(f"{self.k} items: must be 1 or more")
        check_scores(self.sensitivity, self.rounding, self.low, self.high)
        if self.levels > MOST_LEVELS:
            raise ValueError(
                f"sensitivity {self.sensitivity:.3g} of scores {self.low:g} .. {self.high:g}: "
                f"{self.levels:,} levels, above {MOST_LEVELS:,}; damp the scores less"
            )
        nats = float(self.slope) * self.levels
        if nats > MOST_NATS:
            raise ValueError(
                f"epsilon {float(self.epsilon):g} for {self.k} items: the best item is "
                f"e^{nats:,.0f} times as likely as the worst, which protects nothing; take at most "
                f"{float(self.epsilon) * MOST_NATS / nats:,.0f}"
            )

    @property
    def steps(self) -> int:
        """How many levels one neighbour moves a score at most: fewer where levels are many."""
        whole = (self.high - self.low) / ((self.sensitivity + 2 * self.rounding) * _MARGIN)
        return int(max(1, min(_STEPS, (MOST_LEVELS - 1) // max(whole, 1e-9))))

    @property
    def width(self) -> float:
        """w, in units of a score."""
        return (self.sensitivity + 2 * self.rounding) * _MARGIN / self.steps

    @property
    def levels(self) -> int:
        """The number of levels that a score can have."""
        return int((self.high - self.low) / self.width) + 1

    @property
    def slope(self) -> Fraction:
        """The nats between a level and the next."""
        halves = 1 if self.monotone else 2
        return Fraction(self.epsilon) / (halves * self.k * self.steps)

    def on_levels(self, scores: ArrayLike) -> NDArray[np.int64]:
        """Return the level (n,) of each score; ValueError for a score that is not a number."""
        found = np.asarray(scores, np.float64)
        if np.isnan(found).any():
            raise ValueError("a score is not a number")
        clipped = np.clip(found, self.low, self.high)
        return np.minimum(((clipped - self.low) / self.width).astype(np.int64), self.levels - 1)

    def release(self, scores: ArrayLike, source: RandomSource) -> NDArray[np.int64]:
        """Return the places (k,) of the chosen scores (n,), in the order in which they were chosen.

        Raises ValueError for fewer than k scores: that many is a public fact and must be checked
        by the caller, not be answered by a shorter list.
        """
        level = self.on_levels(scores)
        if len(level) < self.k:
            raise ValueError(f"{self.k} items of {len(level)}: there are fewer to choose from")
        order = np.argsort(level, kind="stable")
        present, starts = np.unique(level[order], return_index=True)
        weights = level_weights(self.slope, self.levels)
        weight = [weights[each] for each in present.tolist()]
        left = [part.tolist() for part in np.split(order, starts[1:])]
        chosen = []
        for _ in range(self.k):
            reached = list(accumulate(len(p) * w for p, w in zip(left, weight, strict=True)))
            drawn = below(reached[-1], source)
            at = bisect_right(reached, drawn)
            before = reached[at - 1] if at else 0
            chosen.append(left[at].pop((drawn - before) // weight[at]))
        return np.array(chosen, np.int64)

    def log_likelihood(self, places: ArrayLike, scores: ArrayLike) -> float:
        """Return ln P(the ordered `places` (k,) | scores (n,)), exact but for the last float."""
        level = self.on_levels(scores).tolist()
        weights = level_weights(self.slope, self.levels)
        total, found = sum(weights[each] for each in level), 0.0
        for place in np.asarray(places, np.int64).tolist():
            weight = weights[level[place]]
            found += log_ratio(weight, total)
            total -= weight
        return found


@lru_cache(maxsize=8)
def level_weights(slope: Fraction, levels: int) -> tuple[int, ...]:
    """Return T (levels,): T[l] <= T[l + 1] <= e^slope T[l] in exact arithmetic, T[0] = 2^64."""
    # 96 bits after the point are enough beside the 64 of T[0], and keep the products short.
    factor = int(exponential(slope)[0] * (1 << 96))
    return tuple(accumulate(range(1, levels), lambda last, _: last * factor >> 96, initial=_UNIT))


def below(limit: int, source: RandomSource) -> int:
    """Return a uniform integer of 0 .. limit - 1, exactly; more words are drawn where one fails."""
    bits = limit.bit_length()
    count = -(-bits // 64)
    while True:
        words = source.words(count).tolist()
        drawn = int.from_bytes(b"".join(word.to_bytes(8, "little") for word in words), "little")
        drawn >>= 64 * count - bits
        if drawn < limit:
            return drawn


def log_ratio(numerator: int, denominator: int) -> float:
    """Return ln(numerator / denominator) of positive integers of any size."""
    shift = denominator.bit_length() - 900
    if shift > 0:  # beyond what a float holds
        return math.log(numerator) - math.log(denominator)
    return math.log(numerator / denominator)

"""One set of k items, drawn from all sets of k, for the price of one choice.

    P(S) proportional to  product of w_j over S,    w_j = e^(c f_j),    c = epsilon / (2 k Delta)

the exponential mechanism over the k-subsets (Park and Acharya 2011, equation 28, which that paper
calls infeasible) for a sum of k scores, each of which one neighbour moves by at most Delta. The
normaliser is an elementary symmetric polynomial (Kulesza and Taskar 2011, algorithms 7 and 8):

    E[i, r] = E[i-1, r] + w_i E[i-1, r-1]              sum over the r-subsets of the first i items
    P(item i is taken | r more are wanted from the first i) = w_i E[i-1, r-1] / E[i, r]

The k largest weights come first, and column r is divided by their first r weights, so that no entry
leaves the range of a float: it lies between 1 and the number of r-subsets, whose square root is
divided out as well. Time and memory: n (k + 1) floats.

Guarantee: two inputs whose scores differ by at most Delta in EVERY item (L-infinity) change the
probability of any set by a factor of at most e^epsilon, without a delta, floating point included:

    scores       are put on integers, neighbours at most `_STEPS` apart (`rounding` bounds the error
                 of a computed score and moves it as a neighbour does)
    weights      err by e^+-1e-13 each: k of them are in a set
    a step       takes or leaves an item with a probability that is a float of relative error 2^-51,
                 and is drawn exactly, word by word; all terms of E are positive, so an entry's own
                 error is the same for all sets and cancels
    margin       2 n 2^-51 + 2 k 2e-13 < `_MARGIN` is taken from epsilon

A score further below the best than e^-R in weight (R of some hundred nats, `_depth`) counts as that
far; cutting there keeps neighbours neighbours. `monotone`: one neighbour moves all scores in one
direction, which halves the cost, so c is twice as large (Dong et al. 2020). Only ids may be
released, no score.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_app.privacy.randomness import RandomSource

ROUNDING = 1e-6  # of sums of a few hundred float32 numbers of size 1
LARGEST_EPSILON = 10_000
MOST_ITEMS = 1 << 20
MOST_CHOSEN = 128
_STEPS = 1 << 16
_WIDER = 1 + 2.0**-20
_MARGIN = Fraction(1, 1 << 28)
_LEAST_NATS, _MOST_NATS = 50.0, 600.0
_WORD = 2.0**64


@dataclass(frozen=True)
class KSubset:
    """A set of k items by scores between the public bounds `low` and `high`.

    sensitivity: Delta, how far one neighbour moves any score; rounding: error of a computed score.
    Raises ValueError for values outside their range.
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
        if self.epsilon <= 2 * _MARGIN:
            raise ValueError(f"epsilon {float(self.epsilon):g}: must be above {2 / 2**28:.0e}")
        if not 1 <= self.k <= MOST_CHOSEN:
            raise ValueError(f"{self.k} items: must be 1 to {MOST_CHOSEN}")
        check_scores(self.sensitivity, self.rounding, self.low, self.high)
        if (self.high - self.low) / self._width > 2.0**50:
            raise ValueError(f"sensitivity {self.sensitivity:g}: too small for these scores")

    @property
    def slope(self) -> float:
        """c in nats for each step of a score, rounded down, less the margin of floating point."""
        halves = 1 if self.monotone else 2
        exact = (Fraction(self.epsilon) - _MARGIN) / (halves * self.k * _STEPS)
        return math.nextafter(float(exact), 0.0)

    def steps(self, scores: ArrayLike) -> NDArray[np.int64]:
        """Return the scores (n,) as integers; ValueError for a score that is not a number."""
        found = np.asarray(scores, np.float64)
        if np.isnan(found).any():
            raise ValueError("a score is not a number")
        return ((np.clip(found, self.low, self.high) - self.low) / self._width).astype(np.int64)

    def check(self, count: int) -> None:
        """Raise ValueError where no set can be drawn of so many items, whatever their scores."""
        if not self.k <= count <= MOST_ITEMS:
            raise ValueError(f"{self.k} of {count} items: must be {self.k} to {MOST_ITEMS:,}")
        _depth(count, self._counted(count))

    def release(self, scores: ArrayLike, source: RandomSource) -> NDArray[np.int64]:
        """Return the places (k,) of the set that was drawn by scores (n,), ascending.

        Raises ValueError for fewer than k scores or more than `MOST_ITEMS`: how many there are is
        a public fact, which the caller checks before.
        """
        order, weights, columns = self._scaled(scores)
        table = symmetric_polynomials(weights, columns)
        return np.sort(order[draw(weights, columns, table, source)])

    def log_likelihood(self, places: ArrayLike, scores: ArrayLike) -> NDArray[np.float64]:
        """Return ln P(set | scores (n,)) of sets of places (..., k)."""
        order, weights, columns = self._scaled(scores)
        logs = np.empty(len(order))
        logs[order] = np.log(weights)
        total = symmetric_polynomials(weights, columns)[-1, -1]
        normaliser = math.log(total) - np.log(columns).sum()
        found: NDArray[np.float64] = logs[np.asarray(places, np.int64)].sum(axis=-1) - normaliser
        return found

    @property
    def _width(self) -> float:
        return (self.sensitivity + 2 * self.rounding) * _WIDER / _STEPS

    def _counted(self, count: int) -> NDArray[np.float64]:
        """Return (k,): the square root of how many r-subsets there are of each r - 1, inverted."""
        found: NDArray[np.float64] = np.sqrt(np.arange(1, self.k + 1) / count)
        return found

    def _scaled(
        self, scores: ArrayLike
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        """Return an order (n,) of the places, their weights (n,) in it, the best 1, and the factor
        (k,) of each column."""
        steps = self.steps(scores)
        count = len(steps)
        self.check(count)
        order = np.argpartition(-steps, self.k - 1)
        order[: self.k] = order[: self.k][np.argsort(-steps[order[: self.k]], kind="stable")]
        counted = self._counted(count)
        below = (steps[order[0]] - steps[order]) * self.slope
        weights = np.exp(-np.minimum(below, _depth(count, counted)))
        return order, weights, counted / weights[: self.k]


def _depth(count: int, counted: NDArray[np.float64]) -> float:
    """Return how many nats below the best weight the least one is, so that every product of a
    weight and an entry of the table is a normal float."""
    depth = _MOST_NATS + float(np.log(counted).sum())
    if depth < _LEAST_NATS:
        raise ValueError(f"{len(counted)} of {count:,} items: too many sets for a float")
    return depth


def symmetric_polynomials(
    weights: NDArray[np.float64], columns: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return E (k + 1, n + 1): row r, column i holds E[i, r] times the first r of `columns`.

    A running sum adds from left to right, so an entry is the rounded sum of the two that it comes
    from; `draw` forms the same two.
    """
    table = np.zeros((len(columns) + 1, len(weights) + 1))
    table[0] = 1.0
    for r, factor in enumerate(columns, 1):
        np.cumsum(weights * factor * table[r - 1, :-1], out=table[r, 1:])
    return table


def draw(
    weights: NDArray[np.float64],
    columns: NDArray[np.float64],
    table: NDArray[np.float64],
    source: RandomSource,
) -> NDArray[np.int64]:
    """Return k places (k,) in falling order, from one word for each item and more where a word
    does not decide."""
    words = source.words(len(weights))
    chosen, end = [], len(weights)
    for r in range(len(columns), 0, -1):
        # The first r - 1 items are too few for r; the next one leaves no other choice: E is 0.
        part = slice(r - 1, end)
        taking = weights[part] * columns[r - 1] * table[r - 1, part]
        taken = decided(taking, table[r, part], words[part], source)
        end = r - 1 + int(np.flatnonzero(taken)[-1])
        chosen.append(end)
    return np.array(chosen, np.int64)


def decided(
    taking: NDArray[np.float64],
    leaving: NDArray[np.float64],
    words: NDArray[np.uint64],
    source: RandomSource,
) -> NDArray[np.bool_]:
    """Return (n,) True with probability taking / (taking + leaving), the smaller one exactly as
    the float that it is: a number below 1/2 keeps its relative precision."""
    rare = np.minimum(taking, leaving) / (taking + leaving)
    limits = rare * _WORD
    whole = limits.astype(np.uint64)
    happens = words < whole
    for place in np.flatnonzero((words == whole) & (limits > whole)):
        happens[place] = _undecided(float(limits[place]), source)
    taken: NDArray[np.bool_] = happens == (taking <= leaving)
    return taken


def _undecided(limit: float, source: RandomSource) -> bool:
    """Return whether the rest of a uniform number is below the rest of its limit, after the word
    before was equal."""
    while rest := limit % 1.0:
        limit = rest * _WORD
        word = int(source.words(1)[0])
        if word != int(limit):
            return word < int(limit)
    return False


def check_epsilon(epsilon: Fraction | float) -> None:
    """Raise ValueError for an epsilon that is not above 0 and at most 10,000."""
    if not (math.isfinite(epsilon) and 0 < epsilon <= LARGEST_EPSILON):
        raise ValueError(f"epsilon {epsilon}: must be above 0 and at most {LARGEST_EPSILON:,}")


def check_scores(sensitivity: float, rounding: float, low: float, high: float) -> None:
    """Raise ValueError for a sensitivity that is not above 0, a rounding below 0, no range of
    scores, and for what is not finite."""
    if not (math.isfinite(sensitivity) and sensitivity > 0):
        raise ValueError(f"sensitivity {sensitivity}: must be above 0 and finite")
    if not (math.isfinite(rounding) and rounding >= 0):
        raise ValueError(f"rounding {rounding}: must be 0 or more and finite")
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"scores between {low} and {high}: must be a finite range")

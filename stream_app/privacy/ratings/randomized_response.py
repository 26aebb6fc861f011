"""Randomized response over rating levels: the true level with a bounded advantage, else another.

    P(z | v) = e^eps / (e^eps + d - 1)   for z = v        = p
               1     / (e^eps + d - 1)   for z != v       = q          v, z in 0 .. d-1

Zheng 2016, Def. 3 without the symbol "missing": the value of a rating is protected; its existence,
item and time are public. The likelihoods of a report under two values of one rating differ by at
most a factor e^eps, for any side knowledge of the adversary. n ratings of one user cost n * eps.

An unbiased estimate of g(v) from one report is unique, because the channel is an invertible matrix:

    g_hat(z) = (g(z) - q * sum_v g(v)) / (p - q)

The device samples from integer counts of 2^64 (`stream_app.privacy.exact.integer_tables`). All
methods compute from those counts, not from the formula above, so `log_likelihood` is exact for the
sent reports.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from stream_app.privacy.exact.integer_tables import TOTAL, compiled_ratio
from stream_app.privacy.exact.table_mechanism import TableMechanism, Weights


@dataclass(frozen=True)
class RandomizedResponse(TableMechanism):
    """Report the true level with probability e^eps / (e^eps + levels - 1), any other uniformly.

    Adjacency: value (the existence of a rating is public). Pure epsilon-DP per rating, certified on
    construction: `certificate` holds the proof. Raises ValueError outside 2 <= levels <= 256 and
    1/1000000 <= epsilon <= 64.

    >>> RandomizedResponse(5, Fraction(2)).id
    'rr:5:2'
    """

    family: ClassVar[str] = "rr"

    @property
    def keep(self) -> Fraction:
        """The exact probability p that the report is the true level."""
        return Fraction(self._table.counts[0][0], TOTAL)

    @property
    def change(self) -> Fraction:
        """The exact probability q of each other level."""
        return Fraction(self._table.counts[0][1], TOTAL)

    def unbiased(self, targets: list[Fraction]) -> list[Fraction]:
        """Return the exact g_hat(z) with E[g_hat | v] = targets[v], by the formula above."""
        p, q, total = self.keep, self.change, sum(targets, Fraction(0))
        return [(target - q * total) / (p - q) for target in targets]

    def _weights(self) -> Weights:
        return uniform_response(self.levels, self.epsilon)


def uniform_response(symbols: int, epsilon: Fraction) -> Weights:
    """Return the weights e^epsilon for the true symbol and 1 for every other symbol."""
    ratio, one = compiled_ratio(epsilon), Fraction(1)
    return [[ratio if z == v else one for z in range(symbols)] for v in range(symbols)]

"""Randomized response over the levels and "missing": protects value and presence of a rating.

    P(z | v) = e^eps / (e^eps + d)   for z = v        = p
               1     / (e^eps + d)   for z != v       = q          v, z in {0 .. d-1, missing}

Zheng 2016, Def. 3; d levels, "missing" is input d and report d (the paper's symbol 0). Neighbours
differ in one cell (user, item) in any way, so epsilon also covers whether the user rated the item,
provided that the device reports every cell of a public scope, missing ones included. A missing cell
becomes a fake rating with probability d q. The server cannot distinguish fakes from ratings; it
uses unbiased estimates:

    presence   (1[z != missing] - d q) / (p - q)
    value      s(z) / (p - q),    s(z) = z - (d - 1) / 2,    s(missing) = 0

The cost is volume: about d q n fakes for n cells in scope (`thinning` reduces it).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from stream_app.privacy.exact.table_mechanism import PresenceMechanism, Weights
from stream_app.privacy.ratings.randomized_response import uniform_response


@dataclass(frozen=True)
class RandomizedResponseWithMissing(PresenceMechanism):
    """Report the cell as it is with probability e^eps / (e^eps + levels), any other uniformly.

    Adjacency: cell. Pure epsilon-DP per cell, certified on construction. Raises ValueError outside
    2 <= levels <= 255, 1/1000000 <= epsilon <= 64 and 1/1000 <= thinning <= 1.

    >>> response = RandomizedResponseWithMissing
    >>> response(5, Fraction(2)).id, response(5, Fraction(2), Fraction(1, 4)).id
    ('cell:5:2', 'cell:5:2:1/4')
    """

    family: ClassVar[str] = "cell"

    def unbiased(self, targets: list[Fraction]) -> list[Fraction]:
        """Return the exact g_hat(z) with E[g_hat | v] = targets[v].

        The channel is symmetric in the levels, so the d + 1 equations reduce to two, for S = sum of
        g_hat over the levels and for m = g_hat(missing):

            (p + (d-1) q) S + d r m = sum of the levels' targets      r = P(missing | level)
                        k S +   w m = target of missing               k = P(level | missing)
        """
        table, d = self._table.counts, self.levels
        p, q, r = (Fraction(c) for c in (table[0][0], table[0][1], table[0][d]))
        k, w = Fraction(table[d][0]), Fraction(table[d][d])
        goal = [sum(table[0]) * target for target in targets]
        whole, last = sum(goal[:-1], Fraction(0)), goal[-1]
        both = p + (d - 1) * q
        determinant = both * w - d * r * k
        levels_sum = (whole * w - d * r * last) / determinant
        missing = (both * last - k * whole) / determinant
        return [
            *((target - q * levels_sum - r * missing) / (p - q) for target in goal[:-1]),
            missing,
        ]

    def _unthinned(self) -> Weights:
        return uniform_response(self.levels + 1, self.epsilon)

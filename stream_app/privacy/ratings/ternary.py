"""Ternary response: a level becomes -1 or +1 by an unbiased coin, then {missing, -1, +1} responds.

    s(v)      = 2 v / (d - 1) - 1                      level v of d, on -1 .. 1
    rounding    +1 with probability (1 + s) / 2, else -1
    response    the symbol as it is with probability p = e^eps / (e^eps + 2), each other with
                q = 1 / (e^eps + 2)

PCKV-GRR (Gu, Li, Cheng, Xiong, Cao: PCKV, USENIX Security 2020) for one key; the response is Zheng
2016, Def. 3 with d = 2. Reports: 0 is -1, 1 is +1, 2 is missing. Both steps make one table,

    P(+1 | v) = q + (p - q) (1 + s) / 2,   P(-1 | v) = q + (p - q) (1 - s) / 2,   P(missing | v) = q

Three symbols instead of d + 1 make fewer fakes, 2 q per missing cell, and at eps 1 half the
variance for a missing rating; for a present rating the rounding costs more than it saves from eps 4
on. Presence and level have unbiased estimates; the square of the level has none (its mean is not
linear in the coin), so `square` returns NaN for more than two levels.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from stream_app.privacy.exact.debiasing import unbiased
from stream_app.privacy.exact.integer_tables import compiled_ratio
from stream_app.privacy.exact.table_mechanism import PresenceMechanism, Weights


@dataclass(frozen=True)
class Ternary(PresenceMechanism):
    """Report the sign of a randomly rounded level, or "missing"; see the module.

    Adjacency: cell. Pure epsilon-DP per cell, certified on construction. Raises ValueError outside
    2 <= levels <= 255, 1/1000000 <= epsilon <= 64 and 1/1000 <= thinning <= 1.

    >>> Ternary(5, Fraction(2)).id
    'ternary:5:2'
    """

    family: ClassVar[str] = "ternary"
    no_estimate: ClassVar[frozenset[str]] = frozenset({"square"})

    def unbiased(self, targets: list[Fraction]) -> list[Fraction] | None:
        """Return the exact g_hat of targets that are linear in the level; None for any other.

        The equations are solved for the two ends of the scale and for "missing". The levels between
        are mixtures of the ends; in the table this holds to within 2^-63.
        """
        last, between = self.levels - 1, range(1, self.levels - 1)
        step = (targets[last] - targets[0]) / last
        if any(targets[v] != targets[0] + v * step for v in between):
            return None
        rows = (0, last, self.levels)
        return unbiased([self._table.counts[v] for v in rows], [targets[v] for v in rows])

    def _unthinned(self) -> Weights:
        ratio, one = compiled_ratio(self.epsilon), Fraction(1)
        ups = [Fraction(v, self.levels - 1) for v in range(self.levels)]
        rows = [[1 + (ratio - 1) * (1 - up), 1 + (ratio - 1) * up, one] for up in ups]
        return [*rows, [one, one, ratio]]

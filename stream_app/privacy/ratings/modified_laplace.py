"""Modified Laplace response: a noisy level or "missing"; a missing rating may become a fake.

Zheng 2016, Def. 2, for x in [-1, 1] or "missing", b = 2 / eps and p = e^(eps/2) / (1 + e^(eps/2)):

    x given   x + Laplace(b) with probability p, else missing
    missing   missing with probability p, else 0 + Laplace(b)

In integers: the grid has G points per level; level v of d is at x_v = (2v - d + 1) G / 2, so the
scale consists of the points -T .. T with T = (d - 1) G / 2. Fakes are centred at 0, which must be a
grid point: G = 1 if d is odd and G = 2 if d is even. The noise is discrete Laplace, and a result
beyond an end of the scale is reported as that end:

    P(x + k) = (1 - a) / (1 + a) a^|k|,    a = e^(-eps / 2T)                 x + k inside
    P(T)     = a^(T - x) / (1 + a)         and likewise at -T                 the folded tails

Two levels are at most 2T grid points apart, so the loss is at most eps, as in the paper. The coarse
grid and the folding lose no information: beyond T every report has the likelihood quotients of T,
and the law on a finer or unbounded grid is a randomization of this one (Gupte and Sundararajan
2010), so every estimate from Def. 2 itself can be made from this law with no more variance.

Weights are fixed-point integers of 192 bits. Near eps 20 the counts of 2^64 run out of digits;
there rounding costs accuracy but never the claim (the slack falls below -1e-10).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from stream_app.privacy.exact.integer_tables import MARGIN, exp_bounds
from stream_app.privacy.exact.table_mechanism import PresenceMechanism, Weights

_BITS = 192
_ONE = 1 << _BITS


@dataclass(frozen=True)
class ModifiedLaplace(PresenceMechanism):
    """Report the level plus discrete Laplace noise on a coarse grid, or "missing"; see the module.

    Adjacency: cell. Pure epsilon-DP per cell, certified on construction. Raises ValueError outside
    2 <= levels <= 32, 1/1000000 <= epsilon <= 64 and 1/1000 <= thinning <= 1.

    >>> ModifiedLaplace(5, Fraction(2)).id, ModifiedLaplace(5, Fraction(2)).alphabet
    ('laplace:5:2', 6)
    >>> ModifiedLaplace(10, Fraction(2)).alphabet
    20
    """

    family: ClassVar[str] = "laplace"
    most_levels: ClassVar[int] = 32

    @property
    def per_level(self) -> int:
        """Number of grid points G from one level to the next."""
        return 1 if self.levels % 2 else 2

    def _unthinned(self) -> Weights:
        span = (self.levels - 1) * self.per_level
        claimed = self.epsilon * MARGIN
        a = _fixed(1 / exp_bounds(claimed / span)[0])
        coin = _fixed(exp_bounds(claimed / 2)[0])
        powers = [_ONE]
        for _ in range(span):
            powers.append(powers[-1] * a >> _BITS)
        # All weights are the probabilities above times (1 + a), which saves the division.
        levels = range(0, span + 1, self.per_level)
        noisy = [[coin * w >> _BITS for w in _folded(v, a, powers)] + [_ONE + a] for v in levels]
        missing = [*_folded(span // 2, a, powers), coin * (_ONE + a) >> _BITS]
        return [*noisy, missing]


def _folded(at: int, a: int, powers: list[int]) -> list[int]:
    """Return the weights of the grid for discrete Laplace noise around `at`, its tails folded."""
    span = len(powers) - 1
    inside = [(_ONE - a) * powers[abs(z - at)] >> _BITS for z in range(1, span)]
    return [powers[at], *inside, powers[span - at]]


def _fixed(x: Fraction) -> int:
    return (x.numerator << _BITS) // x.denominator

"""The discrete Gaussian with decimals of 90 digits: its distribution, a draw, and exact deltas.

Each weight e^(-n^2 / 2V) is an exponential of its own, correctly rounded by the decimal module.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, product
from math import prod

DIGITS = 90


def weights(variance: Fraction) -> list[Decimal]:
    """Return e^(-n^2 / 2V) for n = 0, 1 .. while it is above 10^-60."""
    found, n = [], 0
    with localcontext(prec=DIGITS):
        twice = 2 * Decimal(variance.numerator) / variance.denominator
        while not found or found[-1] > Decimal("1e-60"):
            found.append((-(n * n) / twice).exp())
            n += 1
    return found


@lru_cache(maxsize=8)
def distribution(variance: Fraction) -> list[Decimal]:
    """Return P(|X| <= m) for m = 0, 1 .. while it is below 1 - 10^-60."""
    with localcontext(prec=DIGITS):
        each = weights(variance)
        total = 2 * sum(each) - 1
        return [(2 * below - 1) / total for below in accumulate(each)]


def place(u: Decimal, below: Sequence[Decimal]) -> int:
    """Return the first m with u < P(|X| <= m), one after the other."""
    return next(m for m, share in enumerate(below) if u < share)


def delta(
    variances: Sequence[Fraction], shifts: Sequence[tuple[int, ...]], ratio: Decimal, reach: int
) -> Decimal:
    """Return sum max(0, D(z) - ratio D(z - shift)) over the noise z of one sum after the other.

    Each sum has as many coordinates as its shift; integers beyond `reach` are left out.
    """
    laws = {variance: _law(variance, reach) for variance in variances}
    points = [product(range(-reach, reach + 1), repeat=len(shift)) for shift in shifts]
    found = Decimal(0)
    for noise in product(*points):
        stays = moves = Decimal(1)
        for variance, shift, z in zip(variances, shifts, noise, strict=True):
            law = laws[variance]
            stays *= prod(law.get(n, Decimal(0)) for n in z)
            moves *= prod(law.get(n - s, Decimal(0)) for n, s in zip(z, shift, strict=True))
        found += max(Decimal(0), stays - ratio * moves)
    return found


def _law(variance: Fraction, reach: int) -> dict[int, Decimal]:
    each = weights(variance)
    total = 2 * sum(each) - 1
    wide = range(-3 * reach, 3 * reach + 1)
    return {n: each[abs(n)] / total for n in wide if abs(n) < len(each)}

"""The Renyi filter: a budget for mechanisms that are chosen on the way.

    D_a(P || Q) = ln(sum p^a q^(1-a)) / (a - 1)
    delta = e^((a-1)(D - epsilon)) (1 - 1/a)^a / (a - 1)                                     (1)

A curve of loss distributions is not a valid stopping rule where the parameters of later mechanisms
depend on earlier reports. The sum of Renyi divergences at one order is: stop before it exceeds D,
and the whole interaction satisfies (1) (Feldman and Zrnic 2021 for the filter; Canonne,
Kamath and Steinke 2020, Prop. 12, for the conversion). The order is a function of (epsilon, delta)
alone, so it is fixed before the first report.

Divergences are stored as integers of 2^-40, costs rounded up and the budget down.
"""

from __future__ import annotations

import math
from fractions import Fraction

from stream_app.privacy.accounting.dominating_pair import DominatingPair, log_ratio

SCALE = 2**40
_MARGIN = 1e-12  # above all rounding of the sums below, relative and absolute
_ORDERS = tuple(Fraction(n, 16) for n in range(17, 16 * 256))


def filter_order(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the order at which the budget allows the largest D / a, a multiple of 1/16."""
    return max(_ORDERS, key=lambda order: capacity(epsilon, delta, order) / order)


def capacity(epsilon: Fraction, delta: Fraction, order: Fraction) -> int:
    """Return the largest D, in 2^-40 nats and rounded down, that (1) turns into (epsilon, delta).

    0 if the budget does not allow any at this order.
    """
    gain = _gain(delta, order)
    found = float(epsilon) - gain
    return max(0, math.floor((found - _MARGIN * (1 + float(epsilon) + abs(gain))) * SCALE))


def _gain(delta: Fraction, order: Fraction) -> float:
    """Return epsilon - D of (1)."""
    a = float(order)
    log_delta = math.log(delta.numerator) - math.log(delta.denominator)
    return (a * math.log1p(-1 / a) - log_delta - math.log(a - 1)) / (a - 1)


def divergence(pair: DominatingPair, order: Fraction) -> Fraction:
    """Return D_a of a pair, rounded up to a multiple of 2^-40; ValueError if it is infinite."""
    if not pair.atoms[0][1]:
        raise ValueError(
            "pair: an output is possible under one input only; no divergence bounds it"
        )
    a, logs = float(order), []
    for p, q in pair.atoms:
        if p:
            logs.append(math.log(p / pair.total) + (a - 1) * log_ratio(p, q))
    top = max(logs)
    total = (top + math.log(math.fsum(math.exp(each - top) for each in logs))) / (a - 1)
    rounding = _MARGIN * (1 + abs(total) + 64 / (a - 1))
    return Fraction(max(0, math.ceil((total + rounding) * SCALE)), SCALE)

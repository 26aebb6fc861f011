"""The epsilon of what was released so far, if it ended now: valid at every moment to stop.

    L      loss ln(P / Q) of the whole transcript so far, under any adaptive choice of mechanisms
    D_s    sum of the Renyi divergences of order 1 + s of what was released
    M(x)   sum_s w_s e^(s (x - D_s)),   w_s > 0 over the orders 1 + s,   sum_s w_s = delta

e^(s (L - D_s)) is a nonnegative supermartingale that starts at 1 (Feldman and Zrnic 2021), so
M(L) is one that starts at delta, and E[M(L)] <= delta at every stopping time. For the least epsilon
with

    1 - e^(epsilon - L) <= M(L)     for every L up to the largest possible                    (1)

the set E of any outcomes at that time has P(E) - E_Q[e^epsilon; E] <= E[(1 - e^(epsilon - L))+]
<= delta: the number that is shown, itself a function of what was released, is an odometer (Rogers,
Roth, Ullman and Vadhan 2016). Many orders at once are a mixture of boundaries (Howard, Ramdas,
McAuliffe and Sekhon 2021): no level of epsilon has to be chosen, as by a grid of filters
(Whitehouse, Ramdas, Rogers and Wu 2023).

(1) is epsilon = max of x + ln(1 - M(x)), a concave function whose slope is 0 where
sum_s (1 + s) w_s e^(s (x - D_s)) = 1. At delta 0 it is the sum of the largest losses, which always
hold. Between epsilon .05 and 40 at delta 1e-6 it is at most 1.3 times the exact composition of
mechanisms and counts that are known beforehand, 1 to 1.15 mostly.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from stream_app.privacy.accounting.budget_plans import KEPT, Counts
from stream_app.privacy.accounting.renyi import SCALE
from stream_app.privacy.accounting.whole_person import Neighbours, renyi_cost, report_loss

# s: 1/4, 3/8, 1/2 .. 512, so that one is within a factor 1.23 of the best, which is flat.
ORDERS = tuple(Fraction(k * 2**j, 8) for j in range(12) for k in (2, 3))
_MARGIN = 1e-10  # above all rounding, relative and absolute


def odometer(counts: Counts, delta: Fraction, neighbours: Neighbours = "person") -> float:
    """Return epsilon at `delta` >= 0 of so many reports of each mechanism id, rounded up; or inf.

    ValueError as `report_loss` for an id.
    """
    used = [(id, count) for id, count in counts.items() if count]
    most = [n * report_loss(id, neighbours).epsilon(0.0) for id, n in used]
    largest = math.nextafter(math.fsum(most), math.inf) if used else 0.0
    if not used or not delta:
        return largest
    costs = [(_costs(id, neighbours), count) for id, count in used]
    weight = float(delta * KEPT) / len(ORDERS)
    sums = [
        (float(s), sum(count * cost[i] for cost, count in costs) / SCALE * (1 + _MARGIN))
        for i, s in enumerate(ORDERS)
    ]
    terms = [(s, math.log(weight) - s * divergence) for s, divergence in sums]

    def mixed(x: float, *, slope: bool) -> float:
        return sum(
            (1 + s * slope) * math.exp(min(700.0, s * x + constant)) for s, constant in terms
        )

    if mixed(0.0, slope=True) >= 1:
        return 0.0
    low, high = 0.0, 1.0
    while high < largest and mixed(high, slope=True) < 1:
        high *= 2
    high = min(high, largest)
    if mixed(high, slope=True) <= 1:
        low = high
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if mixed(middle, slope=True) <= 1 else (low, middle)
    found = low + math.log1p(-mixed(low, slope=False))
    return min(largest, found + _MARGIN * (1 + found))


@lru_cache(maxsize=256)
def _costs(id: str, neighbours: Neighbours) -> tuple[int, ...]:
    """Return the divergence (`renyi_cost`) of one report at each order."""
    return tuple(renyi_cost(id, 1 + s, neighbours) for s in ORDERS)

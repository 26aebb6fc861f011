"""The best code of all 2^L, found by trying them: sixteen directions at a time, one per lane.

    u_b = Wb / |Wb|      b and -b have opposite directions, so half of the codes are tried
    code = b where |x . u_b| is greatest, -b if x . u_b < 0; the first of equals

Sums over factors are from first to last, each with its own rounding.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.machine.lanes import (
    above,
    add,
    choose,
    load,
    multiply,
    spread,
    store,
    subtract,
)

_LANES = 16
_ZERO, _ONE = np.float32(0), np.float32(1)


@njit(cache=True, nogil=True)
def best(units, factors, directions, numbers, cosines):
    """Write the number of the best direction of each vector and its signed cosine.

    units: (blocks * d * 16,) float32, blocks of sixteen vectors, one per lane; directions u: (codes
    * d,), at most 2^24 codes; numbers, cosines: (blocks * 16,) float32; a vector of zeros gets
    number 0 and cosine 0.
    """
    for block in range(numbers.size // _LANES):
        first = block * factors * _LANES
        highest, found, signed = spread(_ZERO), spread(_ZERO), spread(_ZERO)
        number = _ZERO
        for start in range(0, directions.size, factors):
            total = multiply(load(units, first), spread(directions[start]))
            for c in range(1, factors):
                x = load(units, first + c * _LANES)
                total = add(total, multiply(x, spread(directions[start + c])))
            opposite = subtract(spread(_ZERO), total)
            size = choose(above(opposite, total), opposite, total)
            higher = above(size, highest)
            highest = choose(higher, size, highest)
            found = choose(higher, spread(number), found)
            signed = choose(higher, total, signed)
            number += _ONE
        store(numbers, block * _LANES, found)
        store(cosines, block * _LANES, signed)

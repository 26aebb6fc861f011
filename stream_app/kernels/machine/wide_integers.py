"""The prime of the second moments, and an integer operation that numba does not offer.

    popcount(x)     number of one bits of x, 0 .. 64

An LLVM instruction where the code is compiled and plain Python integers where it is not.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import intrinsic, overload

PRIME = np.uint64(2**61 - 1)


@intrinsic
def _ones(_typing, x):
    def generate(_context, builder, _signature, arguments):
        return builder.ctpop(arguments[0])

    return (types.uint64(types.uint64), generate) if x == types.uint64 else None


def popcount(x: np.uint64) -> np.uint64:
    """Return the number of one bits of a 64-bit word."""
    return np.uint64(int(x).bit_count())


@overload(popcount)
def _compiled_ones(x):
    def compiled(x):
        return _ones(x)

    return compiled if x == types.uint64 else None

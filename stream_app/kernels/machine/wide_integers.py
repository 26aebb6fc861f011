"""Integer operations that are one instruction of a processor and that numba does not offer.

    popcount(x)             number of one bits of x, 0 .. 64
    multiply_mod(a, b)    a * b mod p with p = 2^61 - 1, for a, b < 2^61; the product has 122 bits

Both are an LLVM instruction where the code is compiled and plain Python integers where it is not.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
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


@intrinsic
def _upper(_typing, a, b):
    def generate(_context, builder, _signature, arguments):
        wide = ir.IntType(128)
        product = builder.mul(*(builder.zext(x, wide) for x in arguments))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    if a == types.uint64 and b == types.uint64:
        return types.uint64(types.uint64, types.uint64), generate
    return None


def multiply_high(a: np.uint64, b: np.uint64) -> np.uint64:
    """Return the upper 64 bits of the 128-bit product."""
    return np.uint64((int(a) * int(b)) >> 64)


@overload(multiply_high)
def _compiled_upper(a, b):
    def compiled(a, b):
        return _upper(a, b)

    return compiled if a == types.uint64 and b == types.uint64 else None


@njit(cache=True, nogil=True, inline="always")
def multiply_mod(a: np.uint64, b: np.uint64) -> np.uint64:
    """Return a * b mod 2^61 - 1."""
    # 2^61 is 1 in this field: the bits above it are added to those below.
    low = a * b
    high = multiply_high(a, b)
    total = (low & PRIME) + ((low >> np.uint64(61)) | (high << np.uint64(3)))
    return total - PRIME if total >= PRIME else total

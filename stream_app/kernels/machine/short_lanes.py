"""Thirty-two 16-bit integers that are worked on at once.

    v = load(a, offset)          32 consecutive int16 of a flat array
    store(a, offset, v)          and back
    load_bytes(a, offset)        32 consecutive int8, widened
    spread(x)                    32 times the int16 x
    add, multiply                lane by lane, the low 16 bits
    reaching(v, w)               a uint64 whose bit i says whether lane i of v is at least that of w

LLVM lowers them to SSE, AVX2, AVX-512 or NEON; integers are the same everywhere. There is no bounds
check. With NUMBA_DISABLE_JIT the same names are numpy functions.
"""

# ruff: noqa: ARG001 (numba calls the halves of an intrinsic with arguments of its own choosing)

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic, models, register_model

from stream_app.kernels.machine.simd import loading, of_two, storing

LANES = 32
_SHORTS = ir.VectorType(ir.IntType(16), LANES)
_BYTES = ir.VectorType(ir.IntType(8), LANES)


class Shorts(types.Type):
    """The type of 32 int16."""

    def __init__(self):
        super().__init__(name="ThirtyTwoShorts")


_shorts = Shorts()


@register_model(Shorts)
class _ShortsModel(models.PrimitiveModel):
    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, _SHORTS)


@intrinsic
def _spread(typingctx, x):
    def codegen(context, builder, signature, args):
        empty = ir.Constant(_SHORTS, ir.Undefined)
        first = builder.insert_element(empty, args[0], ir.Constant(ir.IntType(32), 0))
        places = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        return builder.shuffle_vector(first, first, places)

    return _shorts(types.int16), codegen


@intrinsic
def _reaching(typingctx, v, w):
    if not (isinstance(v, Shorts) and isinstance(w, Shorts)):
        return None

    def codegen(context, builder, signature, args):
        bits = builder.icmp_signed(">=", args[0], args[1])
        return builder.zext(builder.bitcast(bits, ir.IntType(LANES)), ir.IntType(64))

    return types.uint64(v, w), codegen


def _load_plain(array, offset):
    return array[int(offset) : int(offset) + LANES].astype(np.int16)


def _store_plain(array, offset, v):
    array[int(offset) : int(offset) + LANES] = v


def _spread_plain(x):
    return np.full(LANES, x, np.int16)


def _reaching_plain(v, w):
    return np.uint64(sum(1 << i for i in range(LANES) if v[i] >= w[i]))


if config.DISABLE_JIT:
    load, load_bytes, store, spread = _load_plain, _load_plain, _store_plain, _spread_plain
    add, multiply, reaching = np.add, np.multiply, _reaching_plain
else:
    load = loading(types.int16, _SHORTS, _shorts)
    load_bytes = loading(types.int8, _BYTES, _shorts, widened=_SHORTS)
    store, spread = storing(types.int16, _SHORTS, Shorts), _spread
    add, multiply, reaching = of_two("add", Shorts), of_two("mul", Shorts), _reaching

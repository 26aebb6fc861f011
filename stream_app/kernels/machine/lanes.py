"""Sixteen float32 that are worked on at once, each for itself: one problem per lane.

    v = load(a, offset)          sixteen consecutive floats of a flat array
    store(a, offset, v)          and back
    spread(x)                    sixteen times the float32 x
    add, subtract, multiply, divide    lane by lane, with one rounding each
    highest(v)                   the greatest of the sixteen, none of them NaN
    m = above(v, w)              where v > w;   m = equal(v, w)
    both(m, n)                   where m and n
    choose(m, v, w)              v where m, else w
    as_bits(m)                   a uint64, bit i whether m holds in lane i
    columns(a, starts, first)    sixteen vectors: of the rows that begin at a[starts[first + lane]],
                                 the floats 0 .. 15, one row a lane

LLVM lowers them to SSE, AVX2, AVX-512 or NEON; every lane is IEEE arithmetic in a fixed order, so
all machines agree in every bit. There is no bounds check. With NUMBA_DISABLE_JIT the same names are
numpy functions with the same bits.
"""

# ruff: noqa: ARG001 (numba calls the halves of an intrinsic with arguments of its own choosing)

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic, models, register_model

from stream_app.kernels.machine.simd import address, loading, of_two, storing

LANES = 16
_FLOATS = ir.VectorType(ir.FloatType(), LANES)
_INTEGERS = ir.VectorType(ir.IntType(32), LANES)
_BITS = ir.VectorType(ir.IntType(1), LANES)


class Floats(types.Type):
    """The type of sixteen float32."""

    def __init__(self):
        super().__init__(name="SixteenFloats")


class Mask(types.Type):
    """The type of sixteen yes or no."""

    def __init__(self):
        super().__init__(name="SixteenBits")


_floats, _mask = Floats(), Mask()


@register_model(Floats)
class _FloatsModel(models.PrimitiveModel):
    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, _FLOATS)


@register_model(Mask)
class _MaskModel(models.PrimitiveModel):
    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, _BITS)


def _is(*given):
    """Whether (type, ...) are what an operation takes."""
    return all(isinstance(each, kind) for each, kind in given)


@intrinsic
def _spread(typingctx, x):
    def codegen(context, builder, signature, args):
        empty = ir.Constant(_FLOATS, ir.Undefined)
        first = builder.insert_element(empty, args[0], ir.Constant(ir.IntType(32), 0))
        return builder.shuffle_vector(first, first, ir.Constant(_INTEGERS, [0] * LANES))

    return _floats(types.float32), codegen


def _comparison(sign):
    @intrinsic
    def typed(typingctx, v, w):
        if not _is((v, Floats), (w, Floats)):
            return None

        def codegen(context, builder, signature, args):
            return builder.fcmp_ordered(sign, args[0], args[1])

        return _mask(v, w), codegen

    return typed


@intrinsic
def _highest(typingctx, v):
    if not _is((v, Floats)):
        return None

    def codegen(context, builder, signature, args):
        found, half = args[0], LANES // 2
        while half:
            # The upper half of what is left, over the lower.
            places = [(lane + half) % LANES for lane in range(LANES)]
            turned = builder.shuffle_vector(found, found, ir.Constant(_INTEGERS, places))
            found = builder.select(builder.fcmp_ordered(">", turned, found), turned, found)
            half //= 2
        return builder.extract_element(found, ir.Constant(ir.IntType(32), 0))

    return types.float32(v), codegen


@intrinsic
def _both(typingctx, m, n):
    if not _is((m, Mask), (n, Mask)):
        return None

    def codegen(context, builder, signature, args):
        return builder.and_(args[0], args[1])

    return _mask(m, n), codegen


@intrinsic
def _choose(typingctx, m, v, w):
    if not _is((m, Mask), (v, Floats), (w, Floats)):
        return None

    def codegen(context, builder, signature, args):
        return builder.select(args[0], args[1], args[2])

    return _floats(m, v, w), codegen


@intrinsic
def _as_bits(typingctx, m):
    if not _is((m, Mask)):
        return None

    def codegen(context, builder, signature, args):
        return builder.zext(builder.bitcast(args[0], ir.IntType(LANES)), ir.IntType(64))

    return types.uint64(m), codegen


@intrinsic
def _columns(typingctx, array, starts, first):
    if array.dtype != types.float32 or starts.dtype != types.int64:
        return None

    def codegen(context, builder, signature, args):
        table = context.make_array(signature.args[1])(context, builder, args[1]).data
        rows = []
        for lane in range(LANES):
            number = builder.add(args[2], ir.Constant(args[2].type, lane))
            start = builder.load(builder.gep(table, [number]))
            row = builder.load(
                address(context, builder, signature.args[0], args[0], start, _FLOATS)
            )
            row.align = 4
            rows.append(row)
        # A transposition: halves, quarters, eighths and neighbours change places in turn.
        width = LANES // 2
        while width:
            swapped = list(rows)
            for i in range(LANES):
                if not i & width:
                    low = [c if not c & width else LANES + c - width for c in range(LANES)]
                    high = [c + width if not c & width else LANES + c for c in range(LANES)]
                    for place, order in ((i, low), (i + width, high)):
                        swapped[place] = builder.shuffle_vector(
                            rows[i], rows[i + width], ir.Constant(_INTEGERS, order)
                        )
            rows = swapped
            width //= 2
        return context.make_tuple(builder, signature.return_type, rows)

    return types.UniTuple(_floats, LANES)(array, starts, types.intp), codegen


def _columns_plain(array, starts, first):
    rows = [array[start : start + LANES] for start in starts[int(first) : int(first) + LANES]]
    return tuple(np.array(rows).T.copy())


def _load_plain(array, offset):
    return array[int(offset) : int(offset) + LANES].copy()


def _store_plain(array, offset, v):
    array[int(offset) : int(offset) + LANES] = v


def _spread_plain(x):
    return np.full(LANES, x, np.float32)


def _as_bits_plain(m):
    return np.uint64(sum(1 << lane for lane in range(LANES) if m[lane]))


if config.DISABLE_JIT:
    load, store, spread = _load_plain, _store_plain, _spread_plain
    add, subtract, multiply, divide = np.add, np.subtract, np.multiply, np.divide
    above, equal, both, choose = np.greater, np.equal, np.logical_and, np.where
    highest, as_bits, columns = np.max, _as_bits_plain, _columns_plain
else:
    load = loading(types.float32, _FLOATS, _floats)
    store = storing(types.float32, _FLOATS, Floats)
    add, subtract = of_two("fadd", Floats), of_two("fsub", Floats)
    multiply, divide = of_two("fmul", Floats), of_two("fdiv", Floats)
    spread, highest, both, choose = _spread, _highest, _both, _choose
    above, equal = _comparison(">"), _comparison("==")
    as_bits, columns = _as_bits, _columns

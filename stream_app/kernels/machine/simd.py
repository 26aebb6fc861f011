"""Short float32 vectors in registers: what LLVM cannot find by itself in a loop without fastmath.

    v = load(a, offset, n)       n consecutive floats of a flat array, n a compile-time number
    store(a, offset, v)          and back
    add(v, w), multiply(v, w)    lane by lane
    scale(v, x)                  every lane times the float32 x
    flip(v, bits)                the sign of lane i flipped where bit i mod 64 of a uint64 is set
    total(v)                     the sum, halves first: (v0 + v2) + (v1 + v3) for four lanes;
                                 zeros fill up to the next power of two

Each is a few LLVM vector operations, which become AVX-512, AVX2 or NEON by the machine; every lane
is plain IEEE arithmetic in a fixed order, so all machines agree in every bit. There is no bounds
check. With NUMBA_DISABLE_JIT the same names are numpy functions with the same bits.
"""

# ruff: noqa: ARG001 (numba calls the halves of an intrinsic with arguments of its own choosing)

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic, models, register_model

_FLOAT = ir.FloatType()


class SimdVector(types.Type):
    """The type of a vector of `count` float32."""

    def __init__(self, count):
        self.count = count
        super().__init__(name=f"Lanes({count})")


@register_model(SimdVector)
class _SimdVectorModel(models.PrimitiveModel):
    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, ir.VectorType(_FLOAT, fe_type.count))


def _address(context, builder, array_type, array, offset, vector):
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [offset]), vector.as_pointer())


@intrinsic(prefer_literal=True)
def _load(typingctx, array, offset, n):
    if not isinstance(n, types.IntegerLiteral) or array.dtype != types.float32:
        return None
    lanes = SimdVector(n.literal_value)

    def codegen(context, builder, signature, args):
        vector = ir.VectorType(_FLOAT, lanes.count)
        found = builder.load(
            _address(context, builder, signature.args[0], args[0], args[1], vector)
        )
        found.align = 4
        return found

    return lanes(array, types.intp, n), codegen


@intrinsic
def _store(typingctx, array, offset, lanes):
    if not isinstance(lanes, SimdVector) or array.dtype != types.float32:
        return None

    def codegen(context, builder, signature, args):
        vector = ir.VectorType(_FLOAT, lanes.count)
        where = _address(context, builder, signature.args[0], args[0], args[1], vector)
        builder.store(args[2], where, align=4)
        return context.get_dummy_value()

    return types.void(array, types.intp, lanes), codegen


def _lanewise(operation):
    def typed(typingctx, a, b):
        if not isinstance(a, SimdVector) or a != b:
            return None

        def codegen(context, builder, signature, args):
            return getattr(builder, operation)(args[0], args[1])

        return a(a, b), codegen

    return intrinsic(typed)


def _pick(builder, a, b, places):
    index = ir.Constant(ir.VectorType(ir.IntType(32), len(places)), places)
    return builder.shuffle_vector(a, b, index)


def _spread(builder, x, count):
    empty = ir.Constant(ir.VectorType(x.type, count), ir.Undefined)
    one = builder.insert_element(empty, x, ir.Constant(ir.IntType(32), 0))
    return _pick(builder, one, one, [0] * count)


def _filled(count):
    return 1 << (count - 1).bit_length()


@intrinsic
def _scale(typingctx, lanes, x):
    if not isinstance(lanes, SimdVector):
        return None

    def codegen(context, builder, signature, args):
        return builder.fmul(args[0], _spread(builder, args[1], lanes.count))

    return lanes(lanes, types.float32), codegen


@intrinsic
def _flip(typingctx, lanes, bits):
    if not isinstance(lanes, SimdVector):
        return None

    def codegen(context, builder, signature, args):
        # Without AVX-512, LLVM aborts where 33 to 63 bits of a word become a vector, so the mask
        # has a power of two bits and is then cut to size.
        n = lanes.count
        word = min(_filled(n), 64)
        narrow = builder.trunc(args[1], ir.IntType(word)) if word < 64 else args[1]
        chosen = builder.bitcast(narrow, ir.VectorType(ir.IntType(1), word))
        if n != word:
            chosen = _pick(builder, chosen, chosen, [i % word for i in range(n)])
        return builder.select(chosen, builder.fneg(args[0]), args[0])

    return lanes(lanes, types.uint64), codegen


@intrinsic
def _total(typingctx, lanes):
    if not isinstance(lanes, SimdVector):
        return None

    def codegen(context, builder, signature, args):
        v, n = args[0], _filled(lanes.count)
        if n > lanes.count:
            zeros = ir.Constant(v.type, [0.0] * lanes.count)
            v = _pick(builder, v, zeros, [min(i, lanes.count) for i in range(n)])
        while n > 1:
            n //= 2
            low = _pick(builder, v, v, list(range(n)))
            v = builder.fadd(low, _pick(builder, v, v, list(range(n, 2 * n))))
        return builder.extract_element(v, ir.Constant(ir.IntType(32), 0))

    return types.float32(lanes), codegen


def _load_plain(array, offset, n):
    return array[int(offset) : int(offset) + n].copy()


def _store_plain(array, offset, v):
    array[int(offset) : int(offset) + len(v)] = v


def _flip_plain(v, bits):
    chosen = [(int(bits) >> (i % 64)) & 1 for i in range(len(v))]
    return np.where(chosen, -v, v)


def _total_plain(v):
    v = np.concatenate([v, np.zeros(_filled(len(v)) - len(v), np.float32)])
    while len(v) > 1:
        v = v[: len(v) // 2] + v[len(v) // 2 :]
    return v[0]


if config.DISABLE_JIT:
    load, store, flip, total = _load_plain, _store_plain, _flip_plain, _total_plain
    add, multiply, scale = np.add, np.multiply, np.multiply
else:
    load, store, flip, total, scale = _load, _store, _flip, _total, _scale
    add, multiply = _lanewise("fadd"), _lanewise("fmul")

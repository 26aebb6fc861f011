"""Short float32 vectors in registers, as LLVM vector operations.

    v = load(a, offset, n)       n consecutive floats of a flat array, n a compile-time number
    store(a, offset, v)          and back
    add(v, w), multiply(v, w)    lane by lane
    scale(v, x)                  every lane times the float32 x
    flip(v, bits)                the sign of lane i flipped where bit i mod 64 of a uint64 is set
    total(v)                     the sum, halves first: (v0 + v2) + (v1 + v3) for four lanes;
                                 zeros fill up to the next power of two

LLVM lowers them to SSE, AVX2, AVX-512 or NEON; every lane is IEEE arithmetic in a fixed order, so
all machines agree in every bit. There is no bounds check. With NUMBA_DISABLE_JIT the same names are
numpy functions with the same bits.

Plain numba loops with the same bits, vectorised by LLVM, were measured instead (d = 32, k = 4,
AVX-512): the vector part of a step takes 3.0 times as long in the sketch and 7.9 times in dense
rows (`python -m tests.benchmarks vectors`), because vectors pass through memory between the loops;
a whole rating takes 2.1 (sketch) and 3.0 (dense) times as long, a decoded one 1.3 and 1.2 times.
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
        super().__init__(name=f"SimdVector({count})")


@register_model(SimdVector)
class _SimdVectorModel(models.PrimitiveModel):
    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, _lanes(fe_type))


def _lanes(vector):
    return ir.VectorType(_FLOAT, vector.count)


def address(context, builder, array_type, array, offset, kind):
    """Return the LLVM pointer to a vector of type `kind` in an array."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [offset]), kind.as_pointer())


def loading(dtype, bits, vector, widened=None):
    """Return the intrinsic f(array, offset) of a fixed number of consecutive elements.

    bits: the LLVM type of these in memory; widened: that of the vector, where it is another.
    """

    @intrinsic
    def typed(typingctx, array, offset):
        if array.dtype != dtype:
            return None

        def codegen(context, builder, signature, args):
            place = address(context, builder, signature.args[0], args[0], args[1], bits)
            loaded = builder.load(place)
            loaded.align = dtype.bitwidth // 8  # a row may begin at any element
            return builder.sext(loaded, widened) if widened is not None else loaded

        return vector(array, types.intp), codegen

    return typed


def storing(dtype, bits, kind):
    """Return the intrinsic f(array, offset, vector) for vectors of class `kind`."""

    @intrinsic
    def typed(typingctx, array, offset, v):
        if array.dtype != dtype or not isinstance(v, kind):
            return None

        def codegen(context, builder, signature, args):
            place = address(context, builder, signature.args[0], args[0], args[1], bits)
            builder.store(args[2], place, align=dtype.bitwidth // 8)
            return context.get_dummy_value()

        return types.void(array, types.intp, v), codegen

    return typed


def of_two(operation, kind):
    """Return the intrinsic of an operation of LLVM on two vectors of class `kind`, lane by lane."""

    @intrinsic
    def typed(typingctx, v, w):
        if not isinstance(v, kind) or v != w:
            return None

        def codegen(context, builder, signature, args):
            return getattr(builder, operation)(args[0], args[1])

        return v(v, w), codegen

    return typed


@intrinsic(prefer_literal=True)
def _load(typingctx, array, offset, n):
    if not isinstance(n, types.IntegerLiteral) or array.dtype != types.float32:
        return None
    vector = SimdVector(n.literal_value)

    def codegen(context, builder, signature, args):
        place = address(context, builder, signature.args[0], args[0], args[1], _lanes(vector))
        loaded = builder.load(place)
        loaded.align = 4  # a row may begin at any float
        return loaded

    return vector(array, types.intp, n), codegen


@intrinsic
def _store(typingctx, array, offset, vector):
    if not isinstance(vector, SimdVector) or array.dtype != types.float32:
        return None

    def codegen(context, builder, signature, args):
        place = address(context, builder, signature.args[0], args[0], args[1], _lanes(vector))
        builder.store(args[2], place, align=4)
        return context.get_dummy_value()

    return types.void(array, types.intp, vector), codegen


def _shuffle(builder, a, b, places):
    index = ir.Constant(ir.VectorType(ir.IntType(32), len(places)), places)
    return builder.shuffle_vector(a, b, index)


def _broadcast(builder, x, count):
    empty = ir.Constant(ir.VectorType(x.type, count), ir.Undefined)
    first = builder.insert_element(empty, x, ir.Constant(ir.IntType(32), 0))
    return _shuffle(builder, first, first, [0] * count)


def _power_of_two(count):
    return 1 << (count - 1).bit_length()


@intrinsic
def _scale(typingctx, vector, x):
    if not isinstance(vector, SimdVector):
        return None

    def codegen(context, builder, signature, args):
        return builder.fmul(args[0], _broadcast(builder, args[1], vector.count))

    return vector(vector, types.float32), codegen


@intrinsic
def _flip(typingctx, vector, bits):
    if not isinstance(vector, SimdVector):
        return None

    def codegen(context, builder, signature, args):
        # Without AVX-512, LLVM aborts where 33 to 63 bits of a word become a vector, so the mask
        # has a power of two bits and is then cut to size.
        n = vector.count
        word = min(_power_of_two(n), 64)
        narrow = builder.trunc(args[1], ir.IntType(word)) if word < 64 else args[1]
        chosen = builder.bitcast(narrow, ir.VectorType(ir.IntType(1), word))
        if n != word:
            chosen = _shuffle(builder, chosen, chosen, [i % word for i in range(n)])
        return builder.select(chosen, builder.fneg(args[0]), args[0])

    return vector(vector, types.uint64), codegen


@intrinsic
def _total(typingctx, vector):
    if not isinstance(vector, SimdVector):
        return None

    def codegen(context, builder, signature, args):
        v, n = args[0], _power_of_two(vector.count)
        if n > vector.count:
            zeros = ir.Constant(v.type, [0.0] * vector.count)
            v = _shuffle(builder, v, zeros, [min(i, vector.count) for i in range(n)])
        while n > 1:
            n //= 2
            low = _shuffle(builder, v, v, list(range(n)))
            v = builder.fadd(low, _shuffle(builder, v, v, list(range(n, 2 * n))))
        return builder.extract_element(v, ir.Constant(ir.IntType(32), 0))

    return types.float32(vector), codegen


def _load_plain(array, offset, n):
    return array[int(offset) : int(offset) + n].copy()


def _store_plain(array, offset, v):
    array[int(offset) : int(offset) + len(v)] = v


def _flip_plain(v, bits):
    chosen = [(int(bits) >> (i % 64)) & 1 for i in range(len(v))]
    return np.where(chosen, -v, v)


def _total_plain(v):
    v = np.concatenate([v, np.zeros(_power_of_two(len(v)) - len(v), np.float32)])
    while len(v) > 1:
        v = v[: len(v) // 2] + v[len(v) // 2 :]
    return v[0]


if config.DISABLE_JIT:
    load, store, flip, total = _load_plain, _store_plain, _flip_plain, _total_plain
    add, multiply, scale = np.add, np.multiply, np.multiply
else:
    load, store, flip, total, scale = _load, _store, _flip, _total, _scale
    add, multiply = of_two("fadd", SimdVector), of_two("fmul", SimdVector)

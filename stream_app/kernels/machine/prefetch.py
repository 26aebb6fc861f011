"""Prefetch of a row of a large table some steps before its use, to hide the latency of memory.

It is only a hint: no result depends on it, and uncompiled code does nothing.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

AHEAD = 16  # rows asked for at a time; a power of two

_FOR_WRITING, _KEEP, _DATA = 1, 3, 1


@intrinsic
def _prefetch(_typing, table, _row):
    def generate(context, builder, signature, arguments):
        table_type = signature.args[0]
        array = context.make_array(table_type)(context, builder, arguments[0])
        place = [arguments[1]] + [context.get_constant(types.intp, 0)] * (table_type.ndim - 1)
        pointer = cgutils.get_item_pointer(context, builder, table_type, array, place)
        pointer = builder.bitcast(pointer, ir.IntType(8).as_pointer())
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, word, word, word])
        hint = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], kind)
        builder.call(hint, [pointer, word(_FOR_WRITING), word(_KEEP), word(_DATA)])
        return context.get_dummy_value()

    return types.void(table, types.intp), generate


def prefetch(_table, _row):
    """Bring the start of `table[row]`, a row or a cell, towards the processor."""


@overload(prefetch)
def _compiled_prefetch(_table, _row):
    def compiled(_table, _row):
        _prefetch(_table, _row)

    return compiled

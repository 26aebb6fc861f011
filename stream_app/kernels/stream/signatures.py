"""Checks many signatures in one call, so that the interpreter is left once for a whole run.

    signed[starts[i] : starts[i + 1]]   signature (64 bytes) and message of row i

The check itself is libsodium's `crypto_sign_open`, called by its address in this process.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

_BYTE, _WORD = ir.IntType(8), ir.IntType(64)


@intrinsic
def _crypto_sign_open(_typing, address, message, signed, _start, _size, keys, _row):
    """Call int crypto_sign_open(message, NULL, signed + start, size, keys[row])."""

    def pointer(context, builder, array_type, array, place):
        made = context.make_array(array_type)(context, builder, array)
        found = cgutils.get_item_pointer(context, builder, array_type, made, place)
        return builder.bitcast(found, _BYTE.as_pointer())

    def generate(context, builder, signature, arguments):
        at, out, text, start, size, names, row = arguments
        zero = context.get_constant(types.intp, 0)
        bytes_, length = _BYTE.as_pointer(), _WORD.as_pointer()
        kind = ir.FunctionType(ir.IntType(32), [bytes_, length, bytes_, _WORD, bytes_])
        call = builder.inttoptr(at, kind.as_pointer())
        given = [
            pointer(context, builder, signature.args[1], out, [zero]),
            ir.Constant(length, None),
            pointer(context, builder, signature.args[2], text, [start]),
            size,
            pointer(context, builder, signature.args[5], names, [row, zero]),
        ]
        return builder.call(call, given)

    arguments = address, message, signed, types.int64, types.int64, keys, types.int64
    return types.int32(*arguments), generate


@njit(cache=True, nogil=True)
def verify_all(address, signed, starts, keys, scratch, verdicts):
    """Set verdicts[i] where row i is signed by keys[i]; `scratch` holds the longest message.

    address: of `crypto_sign_open`, int64;  signed: (bytes,) uint8;  starts: (n + 1,) int64;  keys:
    (n, 32) uint8;  scratch: uint8;  verdicts: (n,) bool.
    """
    for i in range(len(verdicts)):
        size = starts[i + 1] - starts[i]
        found = _crypto_sign_open(
            address, scratch, signed, np.int64(starts[i]), np.int64(size), keys, np.int64(i)
        )
        verdicts[i] = found == 0

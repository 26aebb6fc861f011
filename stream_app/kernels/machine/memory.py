"""Memory by address: a byte, a copy, a fence; and `keep_if`, the rare part of a mark.

For the few places where a kernel reaches memory that is no argument (`dirty_pages.py`). A fence
orders everything before it before everything after it, as another thread sees them, on every
processor: plain loads and stores around it are those of a message (data, fence, flag; flag, fence,
data). There is no bounds check. With NUMBA_DISABLE_JIT the same names are ctypes functions.

`keep_if` is a call out of line in an unlikely branch, without numba's status and without counts of
references: inlined, it costs a training loop a tenth of its speed.

A row of a large table is prefetched some steps before its use, which changes no result.

Large arrays of zeros ask for huge pages, where the system has them. The first write to each 4 KiB
of new memory is a page fault of up to 3 us in a virtual machine: a recovery that puts 1 GiB in
place spent most of its time there. numpy asks for them for `empty`, not for `zeros`.
"""

# ruff: noqa: ARG001 (numba calls the halves of an intrinsic with arguments of its own choosing)

from __future__ import annotations

import ctypes
import mmap
from functools import cache
from typing import Any

from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

PIECE_BITS = 12
PIECE_BYTES = 1 << PIECE_BITS
PAGE_BITS = 16
CLEAN, DIRTY, FROZEN, CHANGED, WRITTEN = 0, 1, 2, 4, 8
HEADER_BYTES = 64  # before a map
ARRAY, ROOM, TAKEN, SIZE = range(4)  # words of the header

_BYTE, _WORD = ir.IntType(8), ir.IntType(64)
_KEEP_PAGES = "murmurec_keep_pages"


@intrinsic
def _address_of(typingctx, array):
    def codegen(context, builder, signature, args):
        return builder.ptrtoint(_data(context, builder, signature.args[0], args[0]), _WORD)

    return types.int64(array), codegen


@intrinsic
def _byte(typingctx, address):
    def codegen(context, builder, signature, args):
        return builder.load(_at(builder, args[0], _BYTE))

    return types.uint8(types.int64), codegen


@intrinsic
def _copy_bytes(typingctx, target, source, size):
    def codegen(context, builder, signature, args):
        _memcpy(builder, *args)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic
def _fence(typingctx):
    def codegen(context, builder, signature, args):
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def _keep_if(typingctx, rare, pages, first, stop):
    def codegen(context, builder, signature, args):
        data = _data(context, builder, signature.args[1], args[1])
        with cgutils.if_unlikely(builder, args[0]):
            builder.call(_keep_function(builder.module), [data, args[2], args[3]])
        return context.get_dummy_value()

    return types.void(types.boolean, pages, types.int64, types.int64), codegen


def _data(context, builder, array_type, array):
    return context.make_array(array_type)(context, builder, array).data


def _at(builder, address, kind):
    return builder.inttoptr(address, kind.as_pointer())


def _memcpy(builder, target, source, size):
    places = [_at(builder, address, _BYTE) for address in (target, source)]
    pointer = _BYTE.as_pointer()
    move = builder.module.declare_intrinsic("llvm.memcpy", [pointer, pointer, _WORD])
    builder.call(move, [*places, size, ir.IntType(1)(0)])


def _keep_function(module):
    """Return the function of `_plain_keep` in a module, as one that is never inlined."""
    if _KEEP_PAGES in module.globals:
        return module.globals[_KEEP_PAGES]
    kind = ir.FunctionType(ir.VoidType(), [_BYTE.as_pointer(), _WORD, _WORD])
    function = ir.Function(module, kind, _KEEP_PAGES)
    function.linkage = "linkonce_odr"
    function.attributes.add("noinline")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    pages, first, stop = function.args
    begin = builder.ashr(first, _WORD(PIECE_BITS))
    last = builder.ashr(builder.sub(stop, _WORD(1)), _WORD(PIECE_BITS))
    many = builder.add(builder.sub(last, begin), _WORD(1))
    with cgutils.for_range(builder, many) as loop:
        piece = builder.add(begin, loop.index)
        page = builder.ashr(piece, _WORD(PAGE_BITS - PIECE_BITS))
        state = builder.gep(pages, [page])
        frozen = builder.and_(builder.load(state), _BYTE(FROZEN))
        with builder.if_else(builder.icmp_unsigned("!=", frozen, _BYTE(0))) as (kept, live):
            with kept:
                _take(builder, pages, piece)
                builder.store(_BYTE(FROZEN | CHANGED), state)
            with live:
                builder.store(_BYTE(DIRTY), state)
    builder.ret_void()
    return function


def _take(builder, pages, piece):
    """Copy a piece of a frozen array to its room, unless that was done."""
    header = builder.ptrtoint(builder.gep(pages, [_WORD(-HEADER_BYTES)]), _WORD)
    array, room, taken, size = (
        builder.load(_at(builder, builder.add(header, _WORD(8 * n)), _WORD))
        for n in (ARRAY, ROOM, TAKEN, SIZE)
    )
    at = builder.shl(piece, _WORD(PIECE_BITS))
    inside = builder.icmp_signed("<", at, size)
    with builder.if_then(inside):
        flag = _at(builder, builder.add(taken, piece), _BYTE)
        with builder.if_then(builder.icmp_unsigned("==", builder.load(flag), _BYTE(0))):
            rest = builder.sub(size, at)
            whole = builder.icmp_signed(">", rest, _WORD(PIECE_BYTES))
            many = builder.select(whole, _WORD(PIECE_BYTES), rest)
            _memcpy(builder, builder.add(room, at), builder.add(array, at), many)
            builder.fence("seq_cst")
            builder.store(_BYTE(1), flag)
            builder.fence("seq_cst")


def _plain_keep(pages, first, stop):
    """Mark bytes first .. stop-1 of the array whose map begins at address `pages`; keep what is
    frozen of them."""
    array, room, taken, size = (ctypes.c_int64 * 4).from_address(pages - HEADER_BYTES)
    for piece in range(first >> PIECE_BITS, ((stop - 1) >> PIECE_BITS) + 1):
        state = ctypes.c_uint8.from_address(pages + (piece >> PAGE_BITS - PIECE_BITS))
        if not state.value & FROZEN:
            state.value = DIRTY
            continue
        state.value = FROZEN | CHANGED
        at = piece << PIECE_BITS
        if at < size and not _plain_byte(taken + piece):
            _plain_copy_bytes(room + at, array + at, min(PIECE_BYTES, size - at))
            ctypes.c_uint8.from_address(taken + piece).value = 1


def _plain_keep_if(rare, pages, first, stop):
    if rare:
        _plain_keep(pages.ctypes.data, int(first), int(stop))


def _plain_byte(address):
    return ctypes.c_uint8.from_address(int(address)).value


def _plain_copy_bytes(target, source, size):
    ctypes.memmove(int(target), int(source), int(size))


def _plain_address_of(array):
    return array.ctypes.data


def _plain_fence():
    pass


if config.DISABLE_JIT:
    address_of, byte, keep_if = _plain_address_of, _plain_byte, _plain_keep_if
    copy_bytes, fence = _plain_copy_bytes, _plain_fence
else:
    address_of, byte, keep_if, copy_bytes, fence = _address_of, _byte, _keep_if, _copy_bytes, _fence


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


_LEAST_BYTES = 4 << 20  # as numpy: a smaller array gains nothing and may take 2 MiB more


def advise_huge_pages(array: NDArray[Any]) -> None:
    """Ask for huge pages behind an array, which nothing was written to yet; a system without them
    ignores it."""
    if array.nbytes < _LEAST_BYTES or (madvise := _madvise()) is None:
        return
    page = mmap.PAGESIZE
    address = int(array.__array_interface__["data"][0])
    first = -(-address // page) * page
    size = (address + array.nbytes - first) // page * page
    madvise(ctypes.c_void_p(first), ctypes.c_size_t(size), ctypes.c_int(mmap.MADV_HUGEPAGE))


@cache
def _madvise() -> Any:
    """Return the system's function; None where there are no huge pages."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    return getattr(ctypes.CDLL(None), "madvise", None)

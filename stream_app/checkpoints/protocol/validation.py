"""Checks that a manifest is consistent, without its pages.

    arrays     sorted by name, with one slot and one digest per page
    model      is the root over these digests, so an exchanged page is detected
    ledger     is the root over the ledger's arrays, which have the lengths of their shapes
    identity   records + absent == end - origin.end in every partition, and the ledger's ends are
               those of the manifest: the ledger counts exactly the log that the checkpoint covers

A damaged manifest fails its own digest; these checks find one that a defect wrote.
"""

from __future__ import annotations

import re
import struct
from functools import lru_cache
from math import prod

from stream_app.wire.state_records import (
    DIGEST_BYTES,
    PAGE_BYTES,
    UNCHANGED,
    ArrayPages,
    Manifest,
    SmallArray,
    ledger_root,
    model_root,
)

_PLAIN_TYPE = re.compile(r"[<|][biuf][1248]")
_COUNTED = {"records", "absent", "ends"}
_SLOTS = bytes((0, 1, UNCHANGED))


def consistent(manifest: Manifest) -> bool:
    """Return whether a manifest is consistent; never raises."""
    names = [array.name for array in manifest.arrays]
    return (
        names == sorted(set(names))
        and all(_counts_pages(array) for array in manifest.arrays)
        and all(_bytes_of(a.dtype, a.shape) == len(a.data) for a in manifest.ledger_arrays)
        and len(manifest.origin.end_offsets) == len(manifest.end_offsets) > 0
        and manifest.model == model_root(manifest.design, manifest.arrays)
        and manifest.ledger == ledger_root(manifest.design, manifest.ledger_arrays)
        and _covers_the_log(manifest)
    )


def _bytes_of(dtype: str, shape: tuple[int, ...]) -> int:
    """Return the size of an array in bytes, -1 for an invalid type or shape."""
    item = _item_bytes(dtype)
    return prod(shape) * item if item and min(shape, default=0) >= 0 else -1


@lru_cache(maxsize=64)
def _item_bytes(dtype: str) -> int:
    """Return the bytes per element, 0 for a type that no state array has."""
    return int(dtype[2:]) if _PLAIN_TYPE.fullmatch(dtype) else 0


def _counts_pages(array: ArrayPages) -> bool:
    size = _bytes_of(array.dtype, array.shape)
    pages = -(-size // PAGE_BYTES)
    return (
        size >= 0
        and len(array.slots) == pages
        and len(array.digests) == pages * DIGEST_BYTES
        and not array.slots.strip(_SLOTS)
    )


def _covers_the_log(manifest: Manifest) -> bool:
    """Return whether the ledger counts exactly the log between the origin and the end offsets."""
    numbers = {array.name: array for array in manifest.ledger_arrays}
    if _COUNTED - numbers.keys():
        return True
    partitions = len(manifest.end_offsets)
    records, absent, end_offsets = (
        _numbers(numbers[name]) for name in ("records", "absent", "ends")
    )
    if len(end_offsets) != partitions or len(absent) != partitions or len(records) % partitions:
        return False
    width = len(records) // partitions
    return list(end_offsets) == list(manifest.end_offsets) and all(
        sum(records[p * width : (p + 1) * width]) + absent[p]
        == end_offsets[p] - manifest.origin.end_offsets[p]
        for p in range(partitions)
    )


def _numbers(array: SmallArray) -> tuple[int, ...]:
    """Return the elements of an int64 array, none for another type."""
    return struct.unpack(f"<{len(array.data) // 8}q", array.data) if array.dtype == "<i8" else ()

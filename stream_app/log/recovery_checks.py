"""What a manifest must satisfy by itself, before a page is looked at.

    arrays     in the order of their names, a slot and a digest for each page of their bytes
    model      is the root over these digests; so no page can be exchanged without being noticed
    ledger     is the root over the ledger's arrays, and these hold what their shapes say
    identity   records + absent == end - base.end in every partition, and the ledger's ends are the
               manifest's: the ledger counts exactly the log that the checkpoint covers

A manifest that was damaged fails already by its own digest; these find one that a defect wrote.
"""

from __future__ import annotations

import re
import struct
from math import prod

from stream_app.wire.checkpoints import (
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
_SLOTS = bytes((0, 1, UNCHANGED))


def consistent(manifest: Manifest) -> bool:
    """Return whether a manifest agrees with itself; never raises."""
    names = [array.name for array in manifest.arrays]
    return (
        names == sorted(set(names))
        and all(_counts_pages(array) for array in manifest.arrays)
        and all(_bytes_of(a.dtype, a.shape) == len(a.data) for a in manifest.ledger_arrays)
        and len(manifest.base.ends) == len(manifest.ends) > 0
        and manifest.model == model_root(manifest.design, manifest.arrays)
        and manifest.ledger == ledger_root(manifest.design, manifest.ledger_arrays)
        and _covers_the_log(manifest)
    )


def _bytes_of(dtype: str, shape: tuple[int, ...]) -> int:
    """Return how many bytes an array holds, -1 for one that cannot be."""
    if not _PLAIN_TYPE.fullmatch(dtype) or min(shape, default=0) < 0:
        return -1
    return prod(shape) * int(dtype[2:])


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
    """Return whether the ledger's counts are those of the log between base and ends."""
    numbers = {array.name: array for array in manifest.ledger_arrays}
    if not {"records", "absent", "ends"} <= numbers.keys():
        return True
    records, absent, ends = (_rows(numbers[name]) for name in ("records", "absent", "ends"))
    if not len(records) == len(absent) == len(ends) == len(manifest.ends):
        return False
    counted = [sum(r) + sum(a) for r, a in zip(records, absent, strict=True)]
    covered = [e - b for e, b in zip(manifest.ends, manifest.base.ends, strict=True)]
    return counted == covered and [end for (end,) in ends] == list(manifest.ends)


def _rows(array: SmallArray) -> list[tuple[int, ...]]:
    """Return an int64 array row by row, an empty list for another type."""
    if array.dtype != "<i8" or not array.shape or not array.data:
        return []
    width = len(array.data) // (8 * array.shape[0])
    return list(struct.iter_unpack(f"<{width}q", array.data))

"""The scalars of entities in a table of fixed size: bias, variances of bias and vector.

    tags    (S,) uint32, 0 for a free slot
    scalars (S, 3) float32: bias; variances of bias and vector, as shares of their first value;
            at first 0, 1, 1
    bucket  b = 4 * bounded(hash, S / 4) .. b + 3    S a multiple of 4; 16 bytes a slot

An entity claims the first free slot of its bucket with a 32-bit tag from its hash when it first
learns. Where all four are taken by others it shares the slot that its hash names: the id space is
open, the memory is not. Two entities of one bucket with equal tags share a slot too (once in
2^32).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.machine.dirty_pages import touch_float
from stream_app.kernels.machine.memory import prefetch
from stream_app.kernels.machine.scalars import bounded

BIAS, BIAS_SHARE, SHARE = 0, 1, 2
SLOT_BYTES = 16
BUCKET = 4  # slots


@njit(cache=True, nogil=True, inline="always")
def tag_of(h):
    """Return the tag of a hash: its lower half, never zero; the bucket comes from the upper."""
    return np.uint32(max(h & np.uint64(0xFFFFFFFF), np.uint64(1)))


@njit(cache=True, nogil=True, inline="always")
def fetch_bucket(tags, scalars, h):
    """Prefetch the bucket of hash h some steps before `slot_of` reads it; changes nothing."""
    first = np.int64(np.uint64(4) * bounded(h, np.uint64(tags.size // 4)))
    prefetch(tags, first)
    prefetch(scalars, first)


@njit(cache=True, nogil=True, inline="always")
def slot_of(tags, h):
    """Return the slot of the entity with hash h: its own, else a free one, else the shared one."""
    first = np.uint64(4) * bounded(h, np.uint64(tags.size // 4))
    tag = tag_of(h)
    found = first + (h & np.uint64(3))
    # Backwards, so that the first fit wins; without a break there is no branch to mispredict.
    for n in range(3, -1, -1):
        s = first + np.uint64(n)
        fits = (tags[s] == tag) | (tags[s] == 0)
        found = s if fits else found
    return found


@njit(cache=True, nogil=True)
def claim_both(tags, pages, su, si, hu, hi):
    """Take the slots of the user and the item that are free, mark them in `pages`, and return the
    item's: another one where both had found the same free slot."""
    fresh = tags[si] == 0
    if tags[su] == 0:
        touch_float(pages, su)
        tags[su] = tag_of(hu)
    if fresh:
        si = slot_of(tags, hi)
        if tags[si] == 0:
            touch_float(pages, si)
            tags[si] = tag_of(hi)
    return si

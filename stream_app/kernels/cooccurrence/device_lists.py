"""The recent items of each device: rings of blocks of 16 entries, allocated as they come.

    entry = slot << 4 | weight       slot 0 .. 4095 of the head, weight 1 .. 15; 0: no entry

    ends[d] = (last, entries, ring)  the newest block, entries in the list, blocks in the ring
    links[b] = the next block of the ring

        last -> spare blocks -> oldest block -> ... -> last

Only the newest block may be partly filled. Where it is full, the list takes a spare block, then a
free or new one, and from `most` blocks on its oldest block, whose 16 entries it drops. So a list of
at most 16 `most` entries holds at least the newest 16 `most` - 15.

The blocks of a list that was released are free, chained by their links: free = (first, how many).

ends (D, 3) int32, all 0 for a device without a list;  blocks (B, 16) uint16;  links (B,) int32;
free (2,) int32.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.machine.dirty_pages import FLOATS, touch_bytes, touch_float, touch_triple

BLOCK, BLOCK_BITS = 16, 4
WEIGHT_BITS, WEIGHT_MASK = 4, 15
LAST, ENTRIES, RING = range(3)
FIRST, MANY = range(2)


@njit(cache=True, nogil=True, inline="always")
def _touch_block(pages, blocks, block):
    size = BLOCK * blocks.itemsize
    touch_bytes(pages, np.int64(block) * size, size)


@njit(cache=True, nogil=True, inline="always")
def _allotted(links, free, links_pages, free_pages, block_count):
    """Return a free block, else the next new one, and the new number of blocks."""
    block = block_count
    if free[MANY]:
        touch_bytes(free_pages, 0, 8)
        block = np.int64(free[FIRST])
        free[FIRST] = links[block]
        free[MANY] -= 1
    else:
        block_count += 1
    touch_float(links_pages, block)
    return block, block_count


@njit(cache=True, nogil=True, inline="always")
def opened(ends, links, free, ends_pages, links_pages, free_pages, block_count, device):
    """Give a device without a list its first block; return the new number of blocks."""
    if ends[device, RING] == 0:
        touch_triple(ends_pages, device, FLOATS)
        block, block_count = _allotted(links, free, links_pages, free_pages, block_count)
        ends[device, LAST] = block
        ends[device, RING] = 1
        links[block] = block
    return block_count


@njit(cache=True, nogil=True)
def release(ends, blocks, links, free, ends_pages, blocks_pages, links_pages, free_pages, devices):
    """Clear the lists of devices (n,) and free their blocks, in order."""
    touch_bytes(free_pages, 0, 8)
    for n in range(devices.size):
        device = devices[n]
        if ends[device, RING] == 0:
            continue
        last = ends[device, LAST]
        block = last
        for _ in range(ends[device, RING]):
            _touch_block(blocks_pages, blocks, block)
            blocks[block, :] = 0
            block = links[block]
        touch_float(links_pages, last)
        first = links[last]
        links[last] = free[FIRST]
        free[FIRST] = first
        free[MANY] += ends[device, RING]
        touch_triple(ends_pages, device, FLOATS)
        ends[device, :] = 0


@njit(cache=True, nogil=True, inline="always")
def oldest_block(ends, links, device):
    """Return the block that holds the oldest entry of a list which is not empty."""
    live = (ends[device, ENTRIES] + BLOCK - 1) >> BLOCK_BITS
    block = ends[device, LAST]
    for _ in range(ends[device, RING] - live + 1):
        block = links[block]
    return block


@njit(cache=True, nogil=True, inline="always")
def gather(ends, blocks, links, device, window, at):
    """Copy a device's entries, oldest first, to `window` from `at` on; return where they end."""
    entries = ends[device, ENTRIES]
    if entries == 0:
        return at
    block = oldest_block(ends, links, device)
    for start in range(0, entries, BLOCK):
        for k in range(min(BLOCK, entries - start)):
            window[at + start + k] = blocks[block, k]
        block = links[block]
    return at + entries


@njit(cache=True, nogil=True, inline="always")
def replace_entry(ends, blocks, links, blocks_pages, device, place, entry):
    """Overwrite the entry at `place`, 0 for the oldest."""
    block = oldest_block(ends, links, device)
    for _ in range(place >> BLOCK_BITS):
        block = links[block]
    _touch_block(blocks_pages, blocks, block)
    blocks[block, place & (BLOCK - 1)] = entry


@njit(cache=True, nogil=True)
def append_many(
    ends, blocks, links, free, ends_pages, blocks_pages, links_pages, free_pages, block_count, most,
    device, window, first, stop,
):  # fmt: skip
    """Add the entries window[first:stop] to an opened list, in order; return the new number of
    blocks."""
    if first < stop:
        touch_triple(ends_pages, device, FLOATS)
    while first < stop:
        entries = ends[device, ENTRIES]
        if entries & (BLOCK - 1) == 0:
            entries, block_count = _next_block(
                ends, blocks, links, free, blocks_pages, links_pages, free_pages, block_count, most,
                device,
            )  # fmt: skip
        last, place = ends[device, LAST], entries & (BLOCK - 1)
        many = min(BLOCK - place, stop - first)
        _touch_block(blocks_pages, blocks, last)
        for k in range(many):
            blocks[last, place + k] = window[first + k]
        first += many
        ends[device, ENTRIES] = entries + many
    return block_count


@njit(cache=True, nogil=True, inline="always")
def _next_block(
    ends, blocks, links, free, blocks_pages, links_pages, free_pages, block_count, most, device
):  # fmt: skip
    """Begin the next block of a list whose last one is full, or that is empty, and clear it; return
    the number of entries, less those of the oldest block where that one is taken, and the new
    number of blocks. The caller marks `ends`."""
    last, entries, ring = ends[device, LAST], ends[device, ENTRIES], ends[device, RING]
    if entries >> BLOCK_BITS < ring:
        last = links[last]
    elif ring < most:
        block, block_count = _allotted(links, free, links_pages, free_pages, block_count)
        touch_float(links_pages, last)
        links[block] = links[last]
        links[last] = block
        last = block
        ends[device, RING] = ring + 1
    else:
        last = links[last]
        entries -= BLOCK
    _touch_block(blocks_pages, blocks, last)
    for k in range(BLOCK):
        blocks[last, k] = 0
    ends[device, LAST] = last
    return entries, block_count

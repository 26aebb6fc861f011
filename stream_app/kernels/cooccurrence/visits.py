"""The visits of each device: which entries of its list one day has brought, and the likes.

A visit is all that a device reports with one day. A record of a later day begins a new visit; one
of the same day or an earlier one (late, or of a clock that went back) belongs to the present visit.
So the order of ratings within a message, and of messages within a day, has no meaning here, except
that `singles` entries came one by one.

    list of a device:  older entries | visit before | present visit, its last `singles` one by one

visits[d] = (day, present, before, singles, channel, step, singles before), int32: the newest day;
entries of the present visit and of the one directly before; how many of the newest entries came, in
the present visit, in records of one rating with nothing packed after them; the channel of the
present visit's reports, -1 where there are several; the decay step (`item_head.py`) at which it
began; the singles of the visit before when the present one began.

likes[d], uint64: bit k, 0 for the newest entry, says that the report of entry k speaks for a like
(`like_bits`). Counts are of entries: an item that is rated again keeps its place, and one that has
left the head leaves an empty entry. Without visits both arrays have no rows.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.cooccurrence.device_lists import ENTRIES, WEIGHT_BITS, WEIGHT_MASK, gather
from stream_app.kernels.machine.dirty_pages import touch_bytes, touch_word

DAY, PRESENT, BEFORE, SINGLES, CHANNEL, STEP, SINGLES_BEFORE = range(7)
FIELDS, LIKE_BITS = 7, 64
MOST_DAY = 2**31 - 1
_BYTES = 4 * FIELDS
_ODD, _LOW, _HALF = np.uint64(0x9E3779B1), np.uint64(2**32 - 1), np.uint64(32)


@njit(cache=True, nogil=True, inline="always")
def begin_record(visits, visits_pages, likes_pages, device, entries, day, step):
    """Mark a device's row, and begin a new visit if the day is later or the list is empty."""
    touch_bytes(visits_pages, device * _BYTES, _BYTES)
    touch_word(likes_pages, device)
    day = min(day, MOST_DAY)
    if day > visits[device, DAY] or entries == 0:
        visits[device, DAY] = max(visits[device, DAY], day)
        visits[device, BEFORE] = visits[device, PRESENT]
        visits[device, SINGLES_BEFORE] = visits[device, SINGLES]
        visits[device, PRESENT] = 0
        visits[device, SINGLES] = 0
        visits[device, CHANNEL] = -1
        visits[device, STEP] = step


@njit(cache=True, nogil=True, inline="always")
def note_new(visits, likes, device, entries, channel, like, alone):
    """Count the newest entry of a list, which has so many now; older ones may have left it."""
    present = visits[device, PRESENT] + 1
    if present == 1:
        visits[device, CHANNEL] = channel
    elif visits[device, CHANNEL] != channel:
        visits[device, CHANNEL] = -1
    present = min(present, entries)
    visits[device, PRESENT] = present
    before = min(visits[device, BEFORE], entries - present)
    visits[device, BEFORE] = before
    visits[device, SINGLES_BEFORE] = min(visits[device, SINGLES_BEFORE], before)
    visits[device, SINGLES] = min(visits[device, SINGLES] + 1, entries) if alone else 0
    likes[device] = likes[device] << np.uint64(1) | np.uint64(like)


@njit(cache=True, nogil=True, inline="always")
def note_again(visits, likes, device, age, channel, like):
    """Replace the like of the entry of this age, 0 for the newest."""
    if age < visits[device, PRESENT] and visits[device, CHANNEL] != channel:
        visits[device, CHANNEL] = -1
    if age < LIKE_BITS:
        at = np.uint64(age)
        likes[device] = likes[device] & ~(np.uint64(1) << at) | np.uint64(like) << at


@njit(cache=True, nogil=True)
def rank_visits(ends, visits, count, singles, keys, rows):
    """Write the rows of devices, of the first `count`, whose present visit is of one channel, and
    their keys, larger for a newer visit and then in a fixed random order; return how many.

    They have entries of the present visit and older ones, or, if `singles`, at least two singles.
    keys (count,) uint64, rows (count,) int64.
    """
    found = 0
    for device in range(count):
        present = visits[device, PRESENT]
        enough = 0 < present < ends[device, ENTRIES]
        if singles:
            enough = visits[device, SINGLES] > 1
        if enough and visits[device, CHANNEL] >= 0:
            # An odd factor leaves the keys of two rows different.
            mixed = np.uint64(device) * _ODD & _LOW
            keys[found] = np.uint64(visits[device, STEP]) << _HALF | mixed
            rows[found] = device
            found += 1
    return found


@njit(cache=True, nogil=True)
def gather_visits(
    ends, blocks, links, visits, likes, singles, rows, window, starts, slots, weights, bits, counts
):
    """Copy the lists of devices, oldest first, without empty entries, and leave out devices that
    `rank_visits` would not have for want of these; return how many are left, in `rows`, too.

    window: room for one list.  starts (m + 1,) int64;  slots (k,) int64, weights, bits (k,) uint8,
    k the entries of all lists, of which the first starts[m] are written;  counts (m, 4) int64:
    present, before, singles, singles before.
    """
    kept = 0
    starts[0] = 0
    for n in range(rows.size):
        device, at = rows[n], starts[kept]
        entries = gather(ends, blocks, links, device, window, 0)
        present, before = visits[device, PRESENT], visits[device, BEFORE]
        alone, own = visits[device, SINGLES], likes[device]
        earlier = visits[device, SINGLES_BEFORE]
        counts[kept, :] = 0
        for k in range(entries):
            entry, age = window[k], entries - 1 - k
            if entry == 0:
                continue
            slots[at] = entry >> WEIGHT_BITS
            weights[at] = entry & WEIGHT_MASK
            bits[at] = own >> np.uint64(age) & np.uint64(1) if age < LIKE_BITS else 0
            counts[kept, 0] += age < present
            counts[kept, 1] += present <= age < present + before
            counts[kept, 2] += age < alone
            counts[kept, 3] += present <= age < present + earlier
            at += 1
        enough = 0 < counts[kept, 0] < at - starts[kept]
        if singles:
            enough = counts[kept, 2] > 1
        if enough:
            rows[kept] = device
            kept += 1
            starts[kept] = at
    return kept

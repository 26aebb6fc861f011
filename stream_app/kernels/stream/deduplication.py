"""Sequence numbers per device: a row for each, found by linear probing.

    slot = hash(device) mod capacity, then linear probing; slots[slot] = row or -1

marks: (rows, 4) int64: two runs of consecutive numbers, first and last of each, the run that was
extended last in front; (0, 0) is an empty run.

    seq in a run                          DUPLICATE   untouched
    seq = last + 1 of a run               APPLIED     the run is extended
    last + 2 .. last + 1 + gap of a run   APPLIED     a new run; the other of the two is dropped
    any, of an unknown device             APPLIED     a new run
    else                                  HELD_BACK   a new run; the one extended last stays

Two runs that meet become one. So a record takes its own number and, where it drops a run, at most
the one that continues it: whatever n records claim, no more than n other numbers are lost.

marks: (rows, 1) int64 where numbers are signed: the largest number, which alone decides.

    seq <= mark                           DUPLICATE   untouched
    else                                  APPLIED     mark = seq

digests: (rows, 2) uint32, (rows, 1) where numbers are signed: of each run, or of the mark, the
digest of the event of its last number; 0 where it is not known. A duplicate of that number with
another digest is a number that was used again: `reused`, and no other outcome changes.

days: (rows,) uint16: 1 + the newest day of the device's events, at most `LATE`; 0 for a free row.
numbers: (6,) int64: the oldest and the newest day that are accepted; the hand; the rows that it has
still to pass; the first free row, and how many rows are free. A free row has the next one in
marks[row, 0].

A device gets a row with its first applied event: the first free one, else the next. slots:
(capacity,) int32, a power of two of at least twice the rows;  devices: (rows, 2) uint64.  What is
written is marked in the pages of its array (`dirty_pages.py`), before it is written.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.machine.dirty_pages import touch_bytes, touch_range
from stream_app.kernels.machine.scalars import GOLDEN, hash64

APPLIED, DUPLICATE, HELD_BACK, SKIPPED = 0, 1, 2, 3
OLDEST, NEWEST, HAND, LEFT, FIRST, FREE = range(6)
LATE = 2**16 - 1


@njit(cache=True, nogil=True, inline="always")
def _home(slots, seed, first, second):
    """Return the slot at which the probe of a device starts."""
    return hash64(hash64(first + seed * GOLDEN) + second) & np.uint64(slots.size - 1)


@njit(cache=True, nogil=True, inline="always")
def _slot(slots, known, seed, first, second):
    """Return the slot that holds a device, or the empty one where it belongs."""
    mask = np.uint64(slots.size - 1)
    slot = _home(slots, seed, first, second)
    row = slots[slot]
    while row >= 0 and (known[row, 0] != first or known[row, 1] != second):
        slot = (slot + np.uint64(1)) & mask
        row = slots[slot]
    return slot


@njit(cache=True, nogil=True)
def advance(
    slots, known, marks, days, digests, numbers,
    known_pages, marks_pages, days_pages, digests_pages, numbers_pages,
    seed, count, devices, seqs, epochs, contents, accepted, start, gap, outcomes, gaps, reused,
):  # fmt: skip
    """Apply rows from `start` on, in order, until a new device finds no row left in `known`.

    Returns (next row, rows used); the next row is the one for which the tables must grow first.
    """
    width, runs = marks.shape[1], digests.shape[1]
    for i in range(start, seqs.size):
        gaps[i] = 0
        reused[i] = False
        if not accepted[i]:
            outcomes[i] = SKIPPED
            continue
        slot = _slot(slots, known, seed, devices[i, 0], devices[i, 1])
        row = np.int64(slots[slot])
        if seqs[i] < 1 or (row >= 0 and _contains(marks[row], seqs[i])):
            outcomes[i] = DUPLICATE
            reused[i] = row >= 0 and _differs(marks[row], digests[row], seqs[i], contents[i])
            continue
        new = row < 0
        if new:
            row = numbers[FIRST] if numbers[FREE] else np.int64(count)
            if row == len(marks):
                return i, count
        touch_bytes(marks_pages, 8 * width * row, 8 * width)
        touch_bytes(digests_pages, 4 * runs * row, 4 * runs)
        if new:
            touch_bytes(known_pages, 16 * row, 16)
            if numbers[FREE]:
                touch_range(numbers_pages, 0, 8 * numbers.size)
                numbers[FIRST] = marks[row, 0]
                numbers[FREE] -= 1
                marks[row, 0] = 0
            else:
                count += 1
            slots[slot] = row
            known[row, 0] = devices[i, 0]
            known[row, 1] = devices[i, 1]
        day = np.uint16(min(epochs[i], LATE - 1) + 1)
        if day > days[row]:
            touch_bytes(days_pages, 2 * row, 2)
            days[row] = day
        if width == 1:
            outcomes[i] = APPLIED
            gaps[i] = min(seqs[i] - marks[row, 0] - 1, gap)
            marks[row, 0] = seqs[i]
            digests[row, 0] = contents[i]
        else:
            outcomes[i], gaps[i] = _enter(marks[row], digests[row], seqs[i], contents[i], gap)
    return seqs.size, count


@njit(cache=True, nogil=True, inline="always")
def _contains(mark, seq):
    """Return whether a number is in a run of a device, or not above its mark."""
    if len(mark) == 1:
        return seq <= mark[0]
    return mark[0] <= seq <= mark[1] or mark[2] <= seq <= mark[3]


@njit(cache=True, nogil=True, inline="always")
def _differs(mark, digests, seq, content):
    """Return whether a number is the last of a run, or the mark, and its event was another one."""
    for r in range(digests.size):
        last = mark[2 * r + 1] if mark.size > 1 else mark[0]
        if last == seq and digests[r] != 0 and content != 0:
            return digests[r] != content
    return False


@njit(cache=True, nogil=True)
def _enter(runs, digests, seq, content, gap):
    """Enter a number that is in neither run; return (outcome, skipped numbers)."""
    outcome, skipped, followed = HELD_BACK, 0, -1
    for r in (0, 2):
        ahead = seq - runs[r + 1] - 1
        if ahead == 0:
            if r == 2:
                _swap(runs, digests)
            runs[1] = seq
            digests[0] = content
            _join(runs, digests)
            return APPLIED, 0
        if followed < 0 and 0 < ahead <= gap:
            outcome, skipped, followed = APPLIED, ahead, r
    if runs[1] == 0:
        outcome = APPLIED
    if followed != 2:
        _swap(runs, digests)
    runs[0] = seq
    runs[1] = seq
    digests[0] = content
    _join(runs, digests)
    return outcome, skipped


@njit(cache=True, nogil=True, inline="always")
def _swap(runs, digests):
    """Exchange the two runs."""
    digest = digests[0]
    digests[0] = digests[1]
    digests[1] = digest
    first, last = runs[0], runs[1]
    runs[0], runs[1] = runs[2], runs[3]
    runs[2], runs[3] = first, last


@njit(cache=True, nogil=True, inline="always")
def _join(runs, digests):
    """Make one run of two that meet."""
    if runs[1] + 1 == runs[2]:
        runs[1] = runs[3]
        digests[0] = digests[1]
    elif runs[3] + 1 == runs[0]:
        runs[0] = runs[2]
    else:
        return
    runs[2] = 0
    runs[3] = 0
    digests[1] = 0


@njit(cache=True, nogil=True)
def find(slots, known, seed, devices, rows):
    """Write the row of each device into `rows`, -1 where it is unknown."""
    for i in range(rows.size):
        rows[i] = slots[_slot(slots, known, seed, devices[i, 0], devices[i, 1])]


@njit(cache=True, nogil=True)
def place(slots, known, days, seed, count):
    """Enter the devices of the first `count` rows into the empty `slots`; return how many are
    distinct."""
    distinct = 0
    for row in range(count):
        if days[row]:
            slot = _slot(slots, known, seed, known[row, 0], known[row, 1])
            if slots[slot] < 0:
                slots[slot] = row
                distinct += 1
    return distinct


@njit(cache=True, nogil=True)
def _remove(slots, known, seed, row):
    """Take a row out of the map; later entries of its run move up, so that each is still found."""
    last = np.uint64(slots.size - 1)
    hole = _slot(slots, known, seed, known[row, 0], known[row, 1])
    slot = hole
    while True:
        slot = (slot + np.uint64(1)) & last
        other = slots[slot]
        if other < 0:
            break
        home = _home(slots, seed, known[other, 0], known[other, 1])
        if ((slot - home) & last) >= ((slot - hole) & last):
            slots[hole] = other
            hole = slot
    slots[hole] = -1


@njit(cache=True, nogil=True)
def evict(
    slots, known, marks, days, digests, numbers,
    known_pages, marks_pages, days_pages, digests_pages, numbers_pages,
    seed, count, steps, rows,
):  # fmt: skip
    """Move the hand over the next rows that it has still to pass, at most `steps`, and free those
    whose newest event is older than the oldest day; write these into `rows`, return how many."""
    width, runs, done = marks.shape[1], digests.shape[1], 0
    touch_range(numbers_pages, 0, 8 * numbers.size)
    for _ in range(min(steps, numbers[LEFT])):
        row = numbers[HAND]
        numbers[HAND] = row + 1 if row + 1 < count else 0
        numbers[LEFT] -= 1
        if days[row] == 0 or days[row] == LATE or days[row] > numbers[OLDEST]:
            continue
        _remove(slots, known, seed, row)
        touch_bytes(known_pages, 16 * row, 16)
        touch_bytes(marks_pages, 8 * width * row, 8 * width)
        touch_bytes(days_pages, 2 * row, 2)
        touch_bytes(digests_pages, 4 * runs * row, 4 * runs)
        known[row, :] = 0
        digests[row, :] = 0
        marks[row, :] = 0
        marks[row, 0] = numbers[FIRST]
        days[row] = 0
        numbers[FIRST] = row
        numbers[FREE] += 1
        rows[done] = row
        done += 1
    return done


@njit(cache=True, nogil=True)
def chained(following, days, numbers):
    """Return how many different rows the chain of free rows has before it leaves them or is as long
    as `numbers` says; following (n,): the next one of each row. Overwrites `days`."""
    length, row = 0, numbers[FIRST]
    while length < numbers[FREE] and 0 <= row < days.size and days[row] == 0:
        days[row] = LATE
        length += 1
        row = following[row]
    return length

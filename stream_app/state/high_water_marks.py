"""The sequence numbers seen from each device, so that a record sent twice is applied once.

A device numbers its events 1, 2, 3, ...; the log may hold an event twice (a retry of a producer
that missed an acknowledgement) but never out of order, as one device writes to one partition.

Where events are signed, the largest number decides: nothing up to it is applied again. Where they
are not, every writer can claim any number in any device's name, and a forged large number would
turn all that the device sends into duplicates. So two runs of consecutive numbers are kept
(`kernels/stream/high_water_marks.py`): a jump of more than `MAX_SEQ_GAP` is held back (rejected)
until the number after it arrives, and the run before the jump goes on beside the new one. A forged
record costs its device at most one event. Price: of a device that skips numbers twice, records
from before the first hole are taken for new ones when they are sent once more.

Devices are listed in the order in which they first appear in the log and are never removed, so
`arrays()` is a function of the log alone and independent of hashing and growth. The table grows by
doubling and takes 56 to 112 bytes a device, 32 to 64 where events are signed; it holds at most 2^30
devices.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.stream import high_water_marks as marks
from stream_app.models.paged_arrays import (
    Arrays,
    DirtyMap,
    check_arrays,
    check_rows,
    dirty_map,
    grown_map,
    leading_pages,
    mark_dirty,
)
from stream_app.wire import MAX_SEQ_GAP

_SMALLEST = 1024


class HighWaterMarks:
    """Applied `seq`s per device; a device is its 128-bit pseudonym as two uint64 words.

    `signed`: every number comes from its device, and the largest decides. `seed` places devices in
    the table and nothing else. By default it is drawn afresh in each process, because devices
    choose their pseudonyms: with a public seed, an attacker could choose many that collide in one
    slot and stall the server.
    """

    growing = frozenset({"devices", "marks"})

    def __init__(self, seed: int | None = None, *, signed: bool = False) -> None:
        if seed is not None and not 0 <= seed < 2**64:
            raise ValueError(f"seed {seed}: use 0 to 2^64 - 1, or none")
        self._seed = np.uint64(secrets.randbits(64) if seed is None else seed)
        self._width = 1 if signed else 4
        self._clear(_SMALLEST)

    def _clear(self, room: int) -> None:
        """Empty the table and allocate `room` devices."""
        self._count = 0
        self._devices = np.zeros((room, 2), np.uint64)
        self._marks = np.zeros((room, self._width), np.int64)
        self._slots = np.full(2 * room, -1, np.int32)
        self._pages = dirty_map(self._devices), dirty_map(self._marks)

    def advance(
        self,
        devices: NDArray[np.uint64],
        seqs: NDArray[np.int64],
        accepted: NDArray[np.bool_],
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Apply (n, 2) devices with (n,) seqs strictly in order; return outcomes and gaps.

        Outcome 0: applied, and the gap is the number of skipped seqs, `MAX_SEQ_GAP` at most. 1: a
        duplicate. 2: held back, a jump (never where events are signed). 3: the row was not
        `accepted`. Duplicates and rows that were not accepted leave the state as it is; only an
        applied row adds a device and has a gap.
        """
        n = len(seqs)
        if devices.shape != (n, 2) or len(accepted) != n:
            raise ValueError(
                f"{devices.shape} devices, {n} seqs, {len(accepted)} accepted: use (n, 2), n, n"
            )
        outcomes = np.empty(n, np.uint8)
        gaps = np.empty(n, np.int64)
        row = 0
        while True:
            row, self._count = marks.advance(
                self._slots, self._devices, self._marks, *self._pages, self._seed, self._count,
                devices, seqs, accepted, row, MAX_SEQ_GAP, outcomes, gaps,
            )  # fmt: skip
            if row == n:
                return outcomes, gaps
            self._grow()

    def find(self, devices: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the seq of each of (n, 2) devices that was applied last, or held back; 0 where
        the device is unknown."""
        rows = self.rows(devices)
        found: NDArray[np.int64] = self._marks[rows, min(self._width, 2) - 1]
        found[rows < 0] = 0
        return found

    def forget(self, device: NDArray[np.uint64]) -> bool:
        """Clear the seqs of a device (2,) and return whether it has a row; the row remains."""
        row = int(self.rows(device.reshape(1, 2))[0])
        if row < 0:
            return False
        size = 8 * self._width
        mark_dirty(self._pages[1], size * row, size * (row + 1))
        self._marks[row] = 0
        return True

    def rows(self, devices: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the row of each of (n, 2) devices, in order of first appearance; -1 for an unknown
        one."""
        rows = np.empty(len(devices), np.int64)
        marks.find(self._slots, self._devices, self._seed, devices, rows)
        return rows

    @property
    def devices(self) -> int:
        """Number of devices with a row: those of which a record was ever applied."""
        return self._count

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return the state itself, not a copy: devices (n, 2) by first appearance, marks (n, 4),
        or (n, 1) where events are signed."""
        return {"devices": self._devices[: self._count], "marks": self._marks[: self._count]}

    def dirty_pages(self) -> dict[str, DirtyMap]:
        """Return the dirty-page map of each array."""
        pages = zip(self.arrays().items(), self._pages, strict=True)
        return {name: leading_pages(page, array) for (name, array), page in pages}

    def load(self, arrays: Arrays) -> None:
        """Replace the state by what `arrays()` returned; ValueError where they do not fit."""
        check_arrays(arrays, self.arrays(), self.growing)
        devices, values = arrays["devices"], arrays["marks"]
        if (
            len(devices) != len(values)
            or (values < 0).any()
            or (values[:, :-1:2] > values[:, 1::2]).any()
        ):
            raise ValueError(
                f"{len(devices)} devices, {len(values)} marks: use one row for each, of numbers "
                "from 0, the last of a run not below its first"
            )
        room = max(_SMALLEST, 1 << (len(values) - 1).bit_length())
        slots = np.full(2 * room, -1, np.int32)
        known = np.zeros((room, 2), np.uint64)
        known[: len(values)] = devices
        if marks.place(slots, known, self._seed, len(values)) != len(values):
            raise ValueError(f"{len(values)} devices: one of them occurs twice")
        self._clear(room)
        self._count, self._slots, self._devices = len(values), slots, known
        self._marks[: len(values)] = values
        for pages in self._pages:
            pages[:] = 1

    def resize(self, rows: Mapping[str, int]) -> None:
        """Give both arrays so many rows; see `StatePart`."""
        check_rows(rows, self.growing)
        count, kept = rows["devices"], min(rows["devices"], self._count)
        if rows["marks"] != count:
            raise ValueError(f"{count} devices, {rows['marks']} marks: use one mark for each")
        old = self._devices, self._marks
        self._clear(max(_SMALLEST, 1 << max(count - 1, 0).bit_length()))
        self._devices[:kept], self._marks[:kept] = old[0][:kept], old[1][:kept]
        self._count = count

    def index(self) -> None:
        """Place the devices again, and mark every page; see `StatePart`."""
        if self._count and self._marks[: self._count].min() < 0:
            raise ValueError(f"{self._count} devices: a mark is below 0")
        self._slots[:] = -1
        if marks.place(self._slots, self._devices, self._seed, self._count) != self._count:
            raise ValueError(f"{self._count} devices: one of them occurs twice")
        for pages in self._pages:
            pages[:] = 1

    def _grow(self) -> None:
        old, count = (self._devices, self._marks, self._pages), self._count
        self._clear(2 * len(self._marks))
        self._devices[:count], self._marks[:count] = old[0], old[1]
        self._count = count
        self._pages = grown_map(old[2][0], self._devices), grown_map(old[2][1], self._marks)
        marks.place(self._slots, self._devices, self._seed, count)

    @property
    def memory_bytes(self) -> int:
        """Size of the table."""
        return self._slots.nbytes + self._devices.nbytes + self._marks.nbytes

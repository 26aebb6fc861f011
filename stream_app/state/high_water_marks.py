"""The sequence numbers seen from each device, so that a record sent twice is applied once.

A device numbers its events 1, 2, 3, ...; the log may hold an event twice (a retry of a producer
that missed an acknowledgement) but never out of order, as one device writes to one partition.

Where events are signed, the largest number decides: nothing up to it is applied again. Where they
are not, every writer can claim any number in any device's name, and a forged large number would
turn all that the device sends into duplicates. So two runs of consecutive numbers are kept
(`kernels/stream/deduplication.py`): a jump of more than `MAX_SEQ_GAP` is held back (rejected)
until the number after it arrives, and the run before the jump goes on beside the new one. A forged
record costs its device at most one event. Price: of a device that skips numbers twice, records
from before the first hole are taken for new ones when they are sent once more.

**A number that is used again.** A device whose journal was restored from an older copy gives
numbers that it has used before to other events. They are duplicates, so they change nothing, and
the device loses them; but its budget does not count what it has sent, which no other check sees. So
the digest of the contents of each run's newest event is kept (`kernels/stream/event_columns.py`),
and an event of that number with other contents is counted (`reused`). Only the newest number is
compared: a device that stops before it reaches its former number is not seen. Where events are not
signed, every writer can cause it in a device's name.

**Eviction.** Where cuts say which days they accept (`log/cut_clock.py`), an event of another day
is rejected, and a device is evicted once its newest event is of a day before all of them: each
event of it that could be sent again would be rejected for its day. The oldest day never moves back,
so no event is applied twice, whatever is evicted. After the oldest day has moved, a hand passes
every row once, at most `steps` of them at the end of a round; new devices take the rows that are
free, the one freed last first.

Rows are thus a function of the log alone and independent of hashing and growth. The table grows by
doubling and takes 66 to 132 bytes a row, 38 to 76 where events are signed; it holds at most 2^30
rows.
"""

from __future__ import annotations

import secrets
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.instrumentation import timed
from stream_app.kernels.stream import deduplication as kernels
from stream_app.models.growing_arrays import GrowingArrays
from stream_app.models.paged_arrays import Arrays, mark_dirty
from stream_app.wire import MAX_SEQ_GAP, REASON_CODE, Reason

STEPS = 1 << 13
_BY_ROW = ("devices", "marks", "days", "digests")
_STALE, _AHEAD = (np.uint8(REASON_CODE[reason]) for reason in (Reason.STALE, Reason.AHEAD))


class HighWaterMarks(GrowingArrays):
    """Applied `seq`s per device; a device is its 128-bit pseudonym as two uint64 words.

    `signed`: every number comes from its device, and the largest decides. `seed` places devices in
    the table and nothing else. By default it is drawn afresh in each process, because devices
    choose their pseudonyms: with a public seed, an attacker could choose many that collide in one
    slot and stall the server.

    devices (n, 2) uint64, marks (n, 4) int64, or (n, 1) where events are signed, days (n,) uint16,
    digests (n, 2) or (n, 1) uint32: by row. numbers (6,) int64.
    """

    growing: ClassVar[frozenset[str]] = frozenset(_BY_ROW)

    def __init__(
        self, seed: int | None = None, *, signed: bool = False, steps: int = STEPS
    ) -> None:
        if seed is not None and not 0 <= seed < 2**64:
            raise ValueError(f"seed {seed}: use 0 to 2^64 - 1, or none")
        super().__init__()
        self._seed = np.uint64(secrets.randbits(64) if seed is None else seed)
        self._width, self.steps = 1 if signed else 4, steps
        self.keep_growing("devices", np.uint64, 2)
        self.keep_growing("marks", np.int64, self._width)
        self.keep_growing("days", np.uint16)
        self.keep_growing("digests", np.uint32, (self._width + 1) // 2)
        self._numbers = self.keep("numbers", np.zeros(6, np.int64))
        self._place()

    def __len__(self) -> int:
        """Number of rows, free ones included."""
        return self.length("devices")

    @property
    def devices(self) -> int:
        """Number of devices with a row: those of which a record was applied and that were not
        evicted since."""
        return len(self) - int(self._numbers[kernels.FREE])

    @property
    def leaving(self) -> bool:
        """Whether rows have still to be looked at for devices whose every event is stale: which of
        them have been evicted depends on their rows, and so on other devices."""
        return bool(self._numbers[kernels.LEFT])

    def admit(
        self,
        epochs: NDArray[np.int64],
        reasons: NDArray[np.uint8],
        days: tuple[int, int] | None,
    ) -> NDArray[np.uint8]:
        """Return the reasons of records (n,) of a round whose cut accepts these days, with `stale`
        and `ahead` for the accepted ones of an older and of a later day.

        Days of earlier cuts count: the oldest day never moves back, nor does the newest. In a round
        without days no event is ahead.
        """
        self.accept(days)
        oldest, newest = self._numbers[kernels.OLDEST], self._numbers[kernels.NEWEST]
        early = epochs < oldest
        late = epochs > newest if days is not None else np.False_
        if not (early.any() or late.any()):
            return reasons
        refused = np.where(early, _STALE, np.where(late, _AHEAD, reasons))
        return np.where(reasons == 0, refused, reasons)

    def accept(self, days: tuple[int, int] | None) -> None:
        """Begin or end a round whose cut accepts these days, first and last."""
        if days is None:
            return
        numbers = self._numbers
        moved = np.maximum(numbers[: kernels.NEWEST + 1], days)
        if (moved == numbers[: kernels.NEWEST + 1]).all():
            return
        mark_dirty(self.pages("numbers"), 0, numbers.nbytes)
        if moved[kernels.OLDEST] > numbers[kernels.OLDEST]:
            numbers[kernels.LEFT] = len(self)
        numbers[: kernels.NEWEST + 1] = moved

    def advance(
        self,
        devices: NDArray[np.uint64],
        seqs: NDArray[np.int64],
        epochs: NDArray[np.int64],
        accepted: NDArray[np.bool_],
        contents: NDArray[np.uint32] | None = None,
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.bool_]]:
        """Apply (n, 2) devices with (n,) seqs, days and digests of their contents strictly in
        order; return outcomes, gaps, and which are duplicates of the newest number with other
        contents. Without `contents` these are not known, and none is.

        Outcome 0: applied, and the gap is the number of skipped seqs, `MAX_SEQ_GAP` at most. 1: a
        duplicate. 2: held back, a jump (never where events are signed). 3: the row was not
        `accepted`. Duplicates and rows that were not accepted leave the state as it is; only an
        applied row adds a device and has a gap.
        """
        n = len(seqs)
        if devices.shape != (n, 2) or len(accepted) != n or len(epochs) != n:
            raise ValueError(
                f"{devices.shape} devices, {n} seqs, {len(epochs)} epochs, {len(accepted)} "
                "accepted: use (n, 2), n, n, n"
            )
        contents = np.zeros(n, np.uint32) if contents is None else contents
        outcomes, gaps, reused = np.empty(n, np.uint8), np.empty(n, np.int64), np.empty(n, np.bool_)
        row = 0
        while True:
            row, count = timed(
                kernels.advance,
                *self._tables(), len(self), devices, seqs, epochs, contents, accepted, row,
                MAX_SEQ_GAP, outcomes, gaps, reused,
            )  # fmt: skip
            for name in _BY_ROW:
                self.extend(name, count)
            if row == n:
                return outcomes, gaps, reused
            for name in _BY_ROW:
                self.reserve(name, 2 * count)
            self._place()

    def evict(self) -> NDArray[np.int64]:
        """End a round: free rows of devices whose every event is stale; return these rows."""
        rows = np.empty(min(self.steps, int(self._numbers[kernels.LEFT])), np.int64)
        if not len(rows):
            return rows
        return rows[: kernels.evict(*self._tables(), len(self), self.steps, rows)]

    def find(self, devices: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the seq of each of (n, 2) devices that was applied last, or held back; 0 where
        the device is unknown."""
        rows = self.rows(devices)
        found: NDArray[np.int64] = self.room("marks")[rows, min(self._width, 2) - 1]
        found[rows < 0] = 0
        return found

    def forget(self, device: NDArray[np.uint64]) -> bool:
        """Clear the seqs of a device (2,) and return whether it has a row; the row remains."""
        row = int(self.rows(device.reshape(1, 2))[0])
        if row < 0:
            return False
        for name in ("marks", "digests"):
            room = self.room(name)
            size = room[0].nbytes
            mark_dirty(self.pages(name), size * row, size * (row + 1))
            room[row] = 0
        return True

    def rows(self, devices: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the row of each of (n, 2) devices; -1 for an unknown one."""
        rows = np.empty(len(devices), np.int64)
        timed(kernels.find, self._slots, self.room("devices"), self._seed, devices, rows)
        return rows

    def check(self, arrays: Arrays) -> None:
        """Raise ValueError unless there is one of each for a row, every mark is possible, and the
        free rows are those of the chain."""
        devices, marks, days, digests, numbers = (arrays[n] for n in (*_BY_ROW, "numbers"))
        used = marks[days > 0] if len(days) == len(marks) else marks
        if (
            not len(devices) == len(marks) == len(days) == len(digests)
            or (marks < 0).any()
            or (used[:, :-1:2] > used[:, 1::2]).any()
        ):
            raise ValueError(
                f"{len(devices)} devices, {len(marks)} marks, {len(days)} days: use one row for "
                "each, of numbers from 0, the last of a run not below its first"
            )
        free = int(np.count_nonzero(days == 0))
        # Copies: the kernel is compiled for arrays that may be written.
        chained = kernels.chained(marks[:, 0].copy(), days.copy(), numbers.copy()) if free else 0
        if (numbers < 0).any() or not free == chained == numbers[kernels.FREE]:
            raise ValueError(f"{free} rows are free, and the chain of free rows has {chained}")
        hand, left = int(numbers[kernels.HAND]), int(numbers[kernels.LEFT])
        if hand >= max(len(days), 1) or left > len(days):
            raise ValueError(f"hand at row {hand}, {left} to pass: there are {len(days)} rows")

    def derive(self) -> None:
        """Place every device; raises ValueError where one occurs twice."""
        if self._place() != self.devices:
            raise ValueError(f"{self.devices} devices: one of them occurs twice")

    def _tables(self) -> tuple[object, ...]:
        names = (*_BY_ROW, "numbers")
        rooms, pages = (self.room(name) for name in names), (self.pages(name) for name in names)
        return self._slots, *rooms, *pages, self._seed

    def _place(self) -> int:
        """Place every device in a map of the right size; return how many are distinct."""
        devices = self.room("devices")
        self._slots = np.full(2 * len(devices), -1, np.int32)
        placed = kernels.place(self._slots, devices, self.room("days"), self._seed, len(self))
        return int(placed)

    @property
    def memory_bytes(self) -> int:
        """Memory held, room for growth included."""
        return super().memory_bytes + self._slots.nbytes

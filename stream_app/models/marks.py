"""The highest sequence number seen from each device, so that a record sent twice is applied once.

A device numbers its events 1, 2, 3, ...; the log may hold an event twice (a retry of a producer
that lost its answer) but never out of order, as one device writes to one partition. What is applied
is a function of the log alone; how the table is hashed or has grown never shows in `arrays()`.
The table grows by doubling and takes 48 to 96 bytes a device.
"""

from __future__ import annotations

import secrets

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels import marks

_SMALLEST = 1024


class Marks:
    """Highest applied `seq` per device; a device is its 128-bit pseudonym as two uint64 words.

    `seed` places devices in the table and nothing else. By default it is drawn afresh in each
    process, because pseudonyms are chosen by devices: with a public one, someone could choose many
    that meet in one slot and stall the server.
    """

    def __init__(self, seed: int | None = None) -> None:
        if seed is not None and not 0 <= seed < 2**64:
            raise ValueError(f"seed {seed}: use 0 to 2^64 - 1, or none")
        self._seed = np.uint64(secrets.randbits(64) if seed is None else seed)
        self._keys = np.zeros((_SMALLEST, 2), np.uint64)
        self._marks = np.zeros(_SMALLEST, np.int64)
        self._devices = 0

    def advance(
        self,
        devices: NDArray[np.uint64],
        seqs: NDArray[np.int64],
        accepted: NDArray[np.bool_],
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Apply (n, 2) devices with (n,) seqs strictly in order; return outcomes and gaps.

        Outcome 0: applied, and the gap is the number of seqs passed over. 1: a duplicate, not above
        the mark. 2: a jump of more than 2^20 above it (an unknown device's mark is 0). 3: the row
        was not `accepted`. Only an applied row changes the state; other rows have gap 0.
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
            room = self._marks.size // 2 - self._devices
            row, new = marks.advance(
                self._keys,
                self._marks,
                self._seed,
                room,
                devices,
                seqs,
                accepted,
                row,
                outcomes,
                gaps,
            )
            self._devices += new
            if row == n:
                return outcomes, gaps
            self._resize(2 * self._marks.size)

    def find(self, devices: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the mark of each of (n, 2) devices, 0 where it is unknown."""
        found = np.empty(len(devices), np.int64)
        marks.find(self._keys, self._marks, self._seed, devices, found)
        return found

    @property
    def devices(self) -> int:
        """Number of devices with a mark."""
        return self._devices

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return copies: devices (n, 2), sorted by first and second word, and marks (n,)."""
        used = np.flatnonzero(self._marks)
        keys = self._keys[used]
        order = np.lexsort((keys[:, 1], keys[:, 0]))
        return {"devices": keys[order], "marks": self._marks[used][order]}

    def load(self, devices: NDArray[np.uint64], values: NDArray[np.int64]) -> None:
        """Replace the state by what `arrays()` returned."""
        if devices.shape != (len(values), 2) or (len(values) and values.min() < 1):
            raise ValueError(
                f"{devices.shape} devices, {len(values)} marks: use (n, 2) and n from 1"
            )
        capacity = _SMALLEST
        while capacity // 2 < len(values):
            capacity *= 2
        self._keys = np.zeros((capacity, 2), np.uint64)
        self._marks = np.zeros(capacity, np.int64)
        marks.place(self._keys, self._marks, self._seed, devices, values)
        self._devices = int(np.count_nonzero(self._marks))

    def _resize(self, capacity: int) -> None:
        used = np.flatnonzero(self._marks)
        keys, values = self._keys[used], self._marks[used]
        self._keys = np.zeros((capacity, 2), np.uint64)
        self._marks = np.zeros(capacity, np.int64)
        marks.place(self._keys, self._marks, self._seed, keys, values)

    @property
    def memory_bytes(self) -> int:
        """Size of the table."""
        return self._keys.nbytes + self._marks.nbytes

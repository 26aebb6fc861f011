"""Devices whose records are rejected: those that an entry of the cut log has erased, and those that
the state excludes from its origin on.

A record is looked up by the first word of its pseudonym in a sorted array and compared in full only
where that word is found. An empty set costs nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.log.ledger import Ledger
from stream_app.wire import REASON_CODE, Batch, Reason
from stream_app.wire.state_records import StateOrigin

_FORGOTTEN = np.uint8(REASON_CODE[Reason.FORGOTTEN])


class ErasedDevices:
    """The devices of `ledger.forgotten` and of `origin.excluded`."""

    def __init__(self, origin: StateOrigin, ledger: Ledger) -> None:
        self._ledger = ledger
        self._all = {_pair(words) for words in ledger.forgotten}
        self._all |= {_pair(words_of(bytes.fromhex(device))) for device in origin.excluded}
        self._sort()

    def _sort(self) -> None:
        self._firsts = np.unique(np.array([first for first, _ in self._all], np.uint64))

    def add(self, device: NDArray[np.uint64]) -> bool:
        """Reject a device (2,) from now on and record it in the ledger; False if it was rejected
        before."""
        pair = _pair(device)
        if pair in self._all:
            return False
        self._all.add(pair)
        self._ledger.forget(device)
        self._sort()
        return True

    def reasons(self, batch: Batch) -> NDArray[np.uint8]:
        """Return the reasons of a batch's records, with `forgotten` for the devices of this set."""
        if not self._all:
            return batch.reasons
        candidates = np.flatnonzero(np.isin(batch.devices[:, 0], self._firsts))
        refused = [
            i for i in candidates if not batch.reasons[i] and _pair(batch.devices[i]) in self._all
        ]
        if not refused:
            return batch.reasons
        reasons = batch.reasons.copy()
        reasons[refused] = _FORGOTTEN
        return reasons


def words_of(device: bytes) -> NDArray[np.uint64]:
    """Return a pseudonym as two words; raises ValueError unless it has 16 bytes."""
    if len(device) != 16:
        raise ValueError(f"device of {len(device)} bytes: a pseudonym has 16")
    return np.frombuffer(device, "<u8").astype(np.uint64)


def _pair(words: NDArray[np.uint64]) -> tuple[int, int]:
    return int(words[0]), int(words[1])

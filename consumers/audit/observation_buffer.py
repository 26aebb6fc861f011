"""What is kept of the records while they are read: columns within a bound of bytes.

    message    8 columns of 8 bytes, and 300 for its number and digest
    cell       11 bytes: item, report, mask
    account    200 bytes

Above the bound the sample of accounts is halved until what is kept fits three quarters of it.
"""

from __future__ import annotations

from array import array
from enum import StrEnum
from hashlib import blake2b
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consumers.audit.observed import Messages, Sample
from stream_app.wire import Event

_COLUMNS = ("device", "seq", "mechanism", "epoch", "count", "size", "time", "arrival")
_MESSAGE, _NUMBER, _CELL, _ACCOUNT = 8 * len(_COLUMNS), 300, 11, 200


class Seen(StrEnum):
    """What is known of a number of a device."""

    NEW = "new"
    REDELIVERED = "redelivered"  # with the same bytes
    REUSED = "reused"  # with others


class Kept:
    """Messages and numbers of the accounts of a sample, in at most `most_bytes`."""

    def __init__(self, most_bytes: int, sample: Sample) -> None:
        self.sample = sample
        self._most_bytes = most_bytes
        self._places: dict[bytes, int] = {}
        self._columns = {name: array("q") for name in _COLUMNS}
        self._items, self._reports, self._masks = array("Q"), bytearray(), array("H")
        self._numbers: dict[tuple[bytes, int], bytes] = {}

    @property
    def size(self) -> int:
        """About how many bytes are kept."""
        kept = len(self._columns["seq"]) * _MESSAGE + len(self._reports) * _CELL
        return kept + len(self._numbers) * _NUMBER + len(self._places) * _ACCOUNT

    def seen(self, device: bytes, seq: int, value: bytes) -> Seen:
        """Return what is known of a number, and keep it with the first bytes."""
        mark = blake2b(value, digest_size=8).digest()
        before = self._numbers.setdefault((device, seq), mark)
        if before is mark:
            return Seen.NEW
        return Seen.REDELIVERED if before == mark else Seen.REUSED

    def add(self, event: Event, mechanism: int, size: int, time: int, arrival: int) -> None:
        """Keep a message of an account of the sample."""
        place = self._places.setdefault(event.device, len(self._places))
        row = place, event.seq, mechanism, event.epoch, len(event.items), size, time, arrival
        for name, number in zip(_COLUMNS, row, strict=True):
            self._columns[name].append(number)
        masks = np.zeros(len(event.items), np.uint16) if event.masks is None else event.masks
        self._items.frombytes(event.items.astype(np.uint64).tobytes())
        self._reports += event.reports.tobytes()
        self._masks.frombytes(masks.astype(np.uint16).tobytes())
        self._fit()

    def messages(self) -> Messages:
        """Return the columns; nothing is added afterwards."""
        columns: dict[str, Any] = {
            name: _as_array(column, np.int64) for name, column in self._columns.items()
        }
        first = np.concatenate((np.zeros(1, np.int64), np.cumsum(columns["count"])))
        return Messages(
            devices=tuple(self._places),
            first=first,
            items=_as_array(self._items, np.uint64),
            reports=_as_array(self._reports, np.uint8),
            masks=_as_array(self._masks, np.uint16),
            **columns,
        )

    def _fit(self) -> None:
        if self.size <= self._most_bytes:
            return
        while self.size > 0.75 * self._most_bytes and self.sample.halvings < 64:
            self.sample = self.sample.halved()
            self._drop()

    def _drop(self) -> None:
        """Drop what is not of the sample."""
        held = np.array([self.sample.holds(device) for device in self._places], np.bool_)
        place = np.cumsum(held) - 1
        before = self.messages()
        kept = held[before.device]
        cells = np.repeat(kept, before.count)
        columns = {name: getattr(before, name)[kept] for name in _COLUMNS}
        columns["device"] = place[columns["device"]]
        self._columns = {name: array("q", column.tobytes()) for name, column in columns.items()}
        self._items = array("Q", before.items[cells].tobytes())
        self._reports = bytearray(before.reports[cells].tobytes())
        self._masks = array("H", before.masks[cells].tobytes())
        self._places = {
            device: row for row, device in enumerate(compress(before.devices, held.tolist()))
        }
        self._numbers = {
            key: mark for key, mark in self._numbers.items() if self.sample.holds(key[0])
        }


def _as_array(column: array[int] | bytearray, kind: type) -> NDArray[Any]:
    return np.frombuffer(column, kind) if len(column) else np.empty(0, kind)

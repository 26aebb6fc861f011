"""Records become columns: decoded by the widest rules, counted by kind, kept within a bound.

A redelivery (the same device, number and bytes) costs no epsilon and says nothing new: it is
counted and left out. The same number with other bytes stays, and is counted as reused. What is
counted is of all records; kept, in columns within a bound of bytes, is a sample of accounts:

    message    8 columns of 8 bytes, and 300 for its number and digest
    cell       11 bytes: item, report, mask
    account    200 bytes

Above the bound the sample is halved until what is kept fits three quarters of it.
"""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from hashlib import blake2b
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consumers.audit.configuration import PublicConfiguration
from consumers.audit.observed import Messages, Observed, Oddities, Record, Replies, Sample, Source
from stream_app import wire
from stream_app.wire import Event
from stream_app.wire.authenticity.sealed_replies import SEALING_BYTES, decode_sealed_reply
from stream_app.wire.limits import CONTRACT
from stream_app.wire.signatures import HEAD_BYTES, envelope_device

MOST_MEGABYTES = 500  # of what is kept


class _Reading:
    """What is counted and kept while records arrive."""

    def __init__(self, configuration: PublicConfiguration, most_bytes: int) -> None:
        self._intake = _intake(configuration)
        self._kept = Kept(most_bytes, Sample(always=frozenset(configuration.canaries)))
        self._replies = Replies()
        self._rejected: Counter[str] = Counter()
        self._odd: Counter[str] = Counter()

    def take(self, record: Record) -> None:
        """Count and keep one record."""
        self._odd["records"] += 1
        self._odd["headers"] += record.headers > 0
        reading = self._rating if record.source is Source.RATINGS else self._reply
        try:
            reading(record)
        except wire.WireError as error:
            self._rejected[f"{record.source}: {error.reason}"] += 1

    def _rating(self, record: Record) -> None:
        event = wire.decode(record.key, record.value, record.partition, self._intake)
        value = _inside(record.value or b"")
        other = not _is_plain(value) if value[:1] == b"{" else wire.encode(event) != value
        if self._is_counted(event, value, other):
            mechanism, size = self._intake.index[event.mechanism], len(record.value or b"")
            self._kept.add(event, mechanism, size, record.time, self._odd["records"])

    def _reply(self, record: Record) -> None:
        value = record.value or b""
        if value[:1] == b"{":
            reply: wire.Recommendation = wire.decode_message(wire.Recommendation, value)
            size, entries = len(value), len(reply.items)
        else:  # the entries of a sealed reply are seen by its asker alone
            size, entries = len(decode_sealed_reply(value).box) - SEALING_BYTES, wire.LIST_LENGTH
        self._replies.add(size, entries, record.partition)

    def _is_counted(self, event: wire.Event, value: bytes, other: bool) -> bool:
        """Count what is odd about an event; return whether it is new and of the sample."""
        held = self._kept.sample.holds(event.device)
        seen = self._kept.seen(event.device, event.seq, value) if held else Seen.NEW
        self._odd[seen] += 1
        if seen is Seen.REDELIVERED:
            return False
        self._odd["tests"] += event.test
        self._odd["extra_bytes"] += other
        return held

    def finished(self) -> Observed:
        """Return what was counted and kept."""
        odd = self._odd
        oddities = Oddities(
            dict(self._rejected),
            *(odd[name] for name in ("headers", "extra_bytes", "tests")),
            *(odd[name] for name in (Seen.REDELIVERED, Seen.REUSED, "records")),
        )
        kept = self._kept
        return Observed(kept.messages(), self._replies, oddities, kept.sample)


def observe(
    records: Iterable[Record],
    configuration: PublicConfiguration,
    most_bytes: int = MOST_MEGABYTES * 1_000_000,
) -> Observed:
    """Return what the records say; `records` in the order of arrival within each partition.

    Above about `most_bytes` the observer keeps a sample of the accounts.
    """
    reading = _Reading(configuration, most_bytes)
    for record in records:
        reading.take(record)
    return reading.finished()


def _intake(configuration: PublicConfiguration) -> wire.Intake:
    """Return the widest rules: what an observer reads is not only what a server accepts."""
    mechanisms = configuration.mechanisms
    return wire.Intake(
        {each.id: each.alphabet for each in mechanisms},
        configuration.partitions,
        accept_tests=True,
        masked={each.id: each.levels for each in mechanisms if each.masks},
        contract=CONTRACT,
    )


def _is_plain(value: bytes) -> bool:
    """Return whether JSON has no extension block and no space, escape or field beside the usual."""
    fields = json.loads(value)
    return "x" not in fields and value in [
        json.dumps(fields, separators=separators, ensure_ascii=ascii_only).encode()
        for separators in ((",", ":"), (", ", ": "))
        for ascii_only in (False, True)
    ]


def _inside(value: bytes) -> bytes:
    """Return the event in an envelope, or the value itself."""
    return value if envelope_device(value) is None else value[HEAD_BYTES:]


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

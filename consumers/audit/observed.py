"""The records of a deployment as columns: rating messages, profiles, replies, and what is no event.

A redelivery (the same device, number and bytes) costs no epsilon and says nothing new: it is
counted and left out. The same number with other bytes stays, and is counted as reused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consumers.audit.configuration import PublicConfiguration
from consumers.audit.records import Record, Source
from stream_app import wire
from stream_app.privacy.profiles import registry as profile_registry
from stream_app.privacy.profiles.mechanism import ProfileMechanism
from stream_app.wire.limits import CONTRACT
from stream_app.wire.signatures import HEAD_BYTES, envelope_device

MOST_PROFILE_IDS = 16  # each new id compiles a table, and outsiders write the ids
_COLUMNS = ("device", "seq", "mechanism", "epoch", "count", "size", "time", "arrival")


@dataclass(frozen=True, eq=False)
class Messages:
    """Rating messages, one row each in the order of arrival within their partition.

    Integer columns (m,): `device` and `mechanism` are indexes into `devices` and the allow-list,
    `count` ratings, `size` bytes, `time` in ms. The ratings of message i are the rows
    `first[i] : first[i + 1]` of `items`, `reports` and `masks` (0 without a mask), shape (r,).
    """

    devices: tuple[bytes, ...]
    device: NDArray[np.int64]
    seq: NDArray[np.int64]
    mechanism: NDArray[np.int64]
    epoch: NDArray[np.int64]
    count: NDArray[np.int64]
    size: NDArray[np.int64]
    time: NDArray[np.int64]
    arrival: NDArray[np.int64]
    first: NDArray[np.int64]
    items: NDArray[np.uint64]
    reports: NDArray[np.uint8]
    masks: NDArray[np.uint16]

    def __len__(self) -> int:
        return len(self.device)

    def rows(self, messages: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows of some messages, message by message."""
        counts = self.count[messages]
        ends = np.cumsum(counts)
        inside = np.arange(int(counts.sum())) - np.repeat(ends - counts, counts)
        return np.repeat(self.first[messages], counts) + inside

    def under(self, mechanism: int) -> NDArray[np.int64]:
        """Return the messages of a mechanism."""
        return np.flatnonzero(self.mechanism == mechanism)


@dataclass(frozen=True, eq=False)
class Profile:
    """One released profile."""

    device: bytes
    seq: int
    epoch: int
    time: int
    mechanism: str
    released: NDArray[np.uint8]


@dataclass(frozen=True)
class Oddities:
    """Counts of what is beside the events, by kind."""

    rejected: Mapping[str, int]
    headers: int
    extra_bytes: int
    tests: int
    redelivered: int
    reused: int
    records: int


@dataclass(frozen=True, eq=False)
class Observed:
    """Everything that the observer has read."""

    messages: Messages
    profiles: tuple[Profile, ...]
    mechanisms: Mapping[str, ProfileMechanism]  # of the profiles
    replies: tuple[tuple[int, int, int], ...]  # bytes, entries and partition of each
    oddities: Oddities


class _ProfileSizes(dict[str, int]):
    """Size of the profiles of every id that is met, up to a bound."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[str, ProfileMechanism] = {}

    def get(self, name: str, default: Any = None) -> Any:
        """Return the size of an id's profiles; `default` for what is no id."""
        if name not in self and len(self.known) < MOST_PROFILE_IDS:
            try:
                self.known[name] = profile_registry.parse(name)
            except ValueError:
                return default
            self[name] = self.known[name].profile_bytes
        return super().get(name, default)


@dataclass
class _Reading:
    """Columns while records arrive."""

    configuration: PublicConfiguration
    intake: wire.Intake
    places: dict[bytes, int] = field(default_factory=dict)
    columns: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in _COLUMNS})
    items: list[NDArray[np.uint64]] = field(default_factory=list)
    reports: list[NDArray[np.uint8]] = field(default_factory=list)
    masks: list[NDArray[np.uint16]] = field(default_factory=list)
    profiles: list[Profile] = field(default_factory=list)
    replies: list[tuple[int, int, int]] = field(default_factory=list)
    numbers: dict[tuple[Source, bytes, int], bytes] = field(default_factory=dict)
    rejected: Counter[str] = field(default_factory=Counter)
    odd: Counter[str] = field(default_factory=Counter)
    sizes: _ProfileSizes = field(default_factory=_ProfileSizes)

    def take(self, record: Record) -> None:
        self.odd["records"] += 1
        self.odd["headers"] += record.headers > 0
        reading = {
            Source.RATINGS: self._rating,
            Source.PROFILES: self._profile,
            Source.REPLIES: self._reply,
        }[record.source]
        try:
            reading(record)
        except wire.WireError as error:
            self.rejected[f"{record.source}: {error.reason}"] += 1

    def _rating(self, record: Record) -> None:
        event = wire.decode(record.key, record.value, record.partition, self.intake)
        value = _inside(record.value or b"")
        if self._is_redelivery(record.source, event.device, event.seq, value):
            return
        self.odd["tests"] += event.test
        self.odd["extra_bytes"] += value[:1] != b"{" and wire.encode(event) != value
        row = (
            self.places.setdefault(event.device, len(self.places)),
            *(event.seq, self.intake.index[event.mechanism], event.epoch, len(event.items)),
            *(len(record.value or b""), record.time, self.odd["records"]),
        )
        for name, number in zip(_COLUMNS, row, strict=True):
            self.columns[name].append(number)
        self.items.append(event.items)
        self.reports.append(event.reports)
        masks = np.zeros(len(event.items), np.uint16) if event.masks is None else event.masks
        self.masks.append(masks)

    def _profile(self, record: Record) -> None:
        value = _inside(record.value or b"")
        event = wire.decode_profile(record.key, value, self.sizes, accept_tests=True)
        if self._is_redelivery(record.source, event.device, event.seq, value):
            return
        self.odd["tests"] += event.test
        self.odd["extra_bytes"] += wire.encode_profile(event) != value
        released = np.frombuffer(event.profile, np.uint8)
        self.profiles.append(
            Profile(event.device, event.seq, event.epoch, record.time, event.mechanism, released)
        )

    def _reply(self, record: Record) -> None:
        reply: wire.Recommendation = wire.decode_message(wire.Recommendation, record.value)
        self.replies.append((len(record.value or b""), len(reply.items), record.partition))

    def _is_redelivery(self, source: Source, device: bytes, seq: int, value: bytes) -> bool:
        mark = blake2b(value, digest_size=8).digest()
        before = self.numbers.setdefault((source, device, seq), mark)
        if before is mark:
            return False
        self.odd["redelivered" if before == mark else "reused"] += 1
        return before == mark

    def finished(self) -> Observed:
        columns = {name: np.array(column, np.int64) for name, column in self.columns.items()}
        first = np.concatenate((np.zeros(1, np.int64), np.cumsum(columns["count"])))
        messages = Messages(
            devices=tuple(self.places),
            first=first,
            items=_joined(self.items, np.uint64),
            reports=_joined(self.reports, np.uint8),
            masks=_joined(self.masks, np.uint16),
            **columns,
        )
        oddities = Oddities(
            dict(self.rejected),
            *(self.odd[name] for name in ("headers", "extra_bytes", "tests")),
            *(self.odd[name] for name in ("redelivered", "reused", "records")),
        )
        profiles = tuple(self.profiles)
        return Observed(messages, profiles, self.sizes.known, tuple(self.replies), oddities)


def observe(records: Iterable[Record], configuration: PublicConfiguration) -> Observed:
    """Return what the records say; `records` in the order of arrival within each partition."""
    reading = _Reading(configuration, _intake(configuration))
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


def _inside(value: bytes) -> bytes:
    """Return the event in an envelope, or the value itself."""
    return value if envelope_device(value) is None else value[HEAD_BYTES:]


def _joined(parts: list[NDArray[Any]], kind: type) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.empty(0, kind)

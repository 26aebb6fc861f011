"""Records become columns: decoded by the widest rules, counted by kind, kept within a bound.

A redelivery (the same device, number and bytes) costs no epsilon and says nothing new: it is
counted and left out. The same number with other bytes stays, and is counted as reused. What is
counted over all records and what is kept of a sample of accounts: `observation_buffer.py`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

from consumers.audit.configuration import PublicConfiguration
from consumers.audit.observation_buffer import Kept, Seen
from consumers.audit.observed import Observed, Oddities, Record, Replies, Sample, Source
from stream_app import wire
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

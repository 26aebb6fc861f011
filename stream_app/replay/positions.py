"""Where a replay begins, in the words of the command line, and the cut nearest to it.

    earliest                       the oldest record that Kafka still has
    latest                         the end
    ts=2026-11-01T00:00:00Z        the first record written then or later; also milliseconds
    ts=1793491200000               since 1970. Kafka's time of a record, not when the user rated
    last=1000                      the last so many records of each partition

A state begins at a cut: the first whose round ends at or behind the place in every partition.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from confluent_kafka import Consumer, KafkaException, TopicPartition

from stream_app.checkpoints import offline_writer as changelog_writing
from stream_app.deployment import Deployment
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.log.canonical_order import Start
from stream_app.replay.cut_history import history
from stream_app.wire import EPOCH_SECONDS, Cut, encode_message
from stream_app.wire.state_records import StateOrigin

FORMS = "earliest, latest, ts=2026-11-01T00:00:00Z (or ts=milliseconds since 1970) or last=1000"
_SECONDS = 30.0
_LATEST_MILLISECONDS = 253_402_300_800_000  # the year 10000


@dataclass(frozen=True)
class StartPosition:
    """A start position as given on the command line; `number` is in milliseconds or records."""

    kind: Literal["earliest", "latest", "ts", "last"]
    number: int = 0


def parse(text: str) -> StartPosition:
    """Return the place that a text names; refuses any other with the forms there are."""
    name, equals, value = text.strip().partition("=")
    match name, equals:
        case (("earliest" | "latest"), ""):
            return StartPosition(name)
        case "last", "=":
            number = _number(value)
            if number is not None and number > 0:
                return StartPosition("last", number)
        case "ts", "=":
            milliseconds = _milliseconds(value)
            if milliseconds is not None and 0 <= milliseconds < _LATEST_MILLISECONDS:
                return StartPosition("ts", milliseconds)
    raise UserError(f"{text[:80]!r} is no place in the log: write {FORMS}")


def _number(value: str) -> int | None:
    """Return the number in decimal digits, None for anything else."""
    return int(value) if value.isascii() and value.isdigit() and len(value) < 19 else None


def _milliseconds(value: str) -> int | None:
    if (number := _number(value)) is not None:
        return number
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    # Without a zone it would mean something else on every machine.
    return None if moment.tzinfo is None else int(moment.astimezone(UTC).timestamp() * 1000)


def resolve(
    consumer: Consumer, topic: str, partitions: int, place: StartPosition
) -> tuple[int, ...]:
    """Return the offset of a place in each partition, within what the broker has."""
    there = [clients.offsets(consumer, TopicPartition(topic, p)) for p in range(partitions)]
    if place.kind == "ts":
        asked = [TopicPartition(topic, p, place.number) for p in range(partitions)]
        try:
            found = consumer.offsets_for_times(asked, timeout=_SECONDS)
        except KafkaException as error:
            raise UserError(
                f"topic {topic}: the offsets of a time cannot be read: {error.args[0].str()}"
            ) from None
        # Below 0: there is no record so late.
        pairs = zip(found, there, strict=True)
        first = [tp.offset if tp.offset >= 0 else high for tp, (_, high) in pairs]
    elif place.kind == "last":
        first = [high - place.number for _, high in there]
    else:
        first = [low if place.kind == "earliest" else high for low, high in there]
    return tuple(
        min(max(offset, low), high) for offset, (low, high) in zip(first, there, strict=True)
    )


def resolve_origin(
    deployment: Deployment,
    grammar: str = "earliest",
    may_cut: bool = False,
) -> tuple[StateOrigin, Start]:
    """Return an origin at the first cut at or behind the place, and where the log goes on after it.

    Whoever was to be forgotten before that cut is left out of the origin. Where no cut reaches the
    place, the newest one is taken; where that one lies before what Kafka still has, one is written
    if `may_cut`, and refused if not.
    """
    place, topics, partitions = parse(grammar), deployment.topics, deployment.partitions
    consumer = clients.consumer(deployment.connection)
    try:
        wanted = resolve(consumer, topics.ratings, partitions, place)
        low = resolve(consumer, topics.ratings, partitions, StartPosition("earliest"))
    finally:
        consumer.close()
    if not any(wanted):
        zero = (0,) * partitions
        return StateOrigin(0, zero), Start(0, zero, 0)
    past = history(deployment)
    found = _first(past.cuts, wanted) or _first(past.cuts[-1:], low)
    if found is None and may_cut:
        _write_cut(deployment, past.cuts[-1][0] if past.cuts else None, low)
        past = history(deployment)
        found = _first(past.cuts[-1:], low)
    if found is None:
        raise UserError(
            f"{topics.cuts}: no cut reaches what {topics.ratings} still holds (from offsets "
            f"{list(low)} on); murmurec worker --accept-gap writes one"
        )
    cut, cut_offset = found
    origin = StateOrigin(
        cut.number, cut.end_offsets, truncated=True, excluded=past.forgotten(cut.number)
    )
    return origin, Start(cut.number, cut.end_offsets, cut_offset)


def _first(cuts: Sequence[tuple[Cut, int]], wanted: tuple[int, ...]) -> tuple[Cut, int] | None:
    """Return the first cut whose round ends at or behind the wanted offsets."""
    for cut, cut_offset in cuts:
        if all(end >= want for end, want in zip(cut.end_offsets, wanted, strict=True)):
            return cut, cut_offset
    return None


def _write_cut(
    deployment: Deployment,
    newest: Cut | None,
    low: tuple[int, ...],
) -> None:
    """Append the cut at which the log is taken up: no worker could read up to it any more."""
    number, ends = (newest.number, newest.end_offsets) if newest else (0, (0,) * len(low))
    moved = tuple(max(end, first) for end, first in zip(ends, low, strict=True))
    cut = Cut(number + 1, moved, int(time.time()) // EPOCH_SECONDS)
    changelog_writing.append(deployment.connection, deployment.topics.cuts, encode_message(cut))

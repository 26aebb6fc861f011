"""Parses the start position of a replay and resolves it to a cut.

    earliest                       the oldest record that Kafka still holds
    latest                         the end
    ts=2026-11-01T00:00:00Z        the first record with this Kafka timestamp or a later one (not
    ts=1793491200000               the time of the rating); also milliseconds since 1970
    last=1000                      the last 1000 records of each partition

A state begins at a cut: the first whose round ends at or after the position in every partition.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from confluent_kafka import Consumer, KafkaException, TopicPartition

from stream_app.checkpoints import offline_writer
from stream_app.deployment import Deployment
from stream_app.errors import UserError
from stream_app.kafka import clients, passing
from stream_app.log.canonical_order import Start
from stream_app.replay.cut_history import CutHistory, history
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
    """Return the start position that a text names; refuses any other text with the valid forms."""
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
    raise UserError(f"{text[:80]!r} is not a position in the log: write {FORMS}")


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
    # A time without a zone depends on the machine.
    return None if moment.tzinfo is None else int(moment.astimezone(UTC).timestamp() * 1000)


def resolve(
    consumer: Consumer, topic: str, partitions: int, place: StartPosition
) -> tuple[int, ...]:
    """Return the offset of a position in each partition, within what the broker holds."""
    bounds = [clients.offsets(consumer, TopicPartition(topic, p)) for p in range(partitions)]
    if place.kind == "ts":
        times = [TopicPartition(topic, p, place.number) for p in range(partitions)]
        what = f"topic {topic}: the offsets of a time cannot be read"
        try:
            found = passing.answered(
                lambda left: consumer.offsets_for_times(times, timeout=left), _SECONDS, what
            )
        except KafkaException as error:
            raise UserError(f"{what}: {error.args[0].str()}") from None
        # A negative offset: no record is that late.
        pairs = zip(found, bounds, strict=True)
        first = [tp.offset if tp.offset >= 0 else high for tp, (_, high) in pairs]
    elif place.kind == "last":
        first = [high - place.number for _, high in bounds]
    else:
        first = [low if place.kind == "earliest" else high for low, high in bounds]
    return tuple(
        min(max(offset, low), high) for offset, (low, high) in zip(first, bounds, strict=True)
    )


def resolve_origin(
    deployment: Deployment,
    grammar: str = "earliest",
    may_cut: bool = False,
) -> tuple[StateOrigin, Start]:
    """Return an origin at the first cut at or after the position, and the log's start after it.

    The origin excludes the devices that are forgotten before that cut. If no cut reaches the
    position, the newest cut is used; if that cut precedes the oldest records that Kafka holds, a
    new cut is written if `may_cut`, else the position is refused.
    """
    place, topics, partitions = parse(grammar), deployment.topics, deployment.partitions
    consumer = clients.consumer(deployment.connection)
    try:
        wanted = resolve(consumer, topics.ratings, partitions, place)
        low = resolve(consumer, topics.ratings, partitions, StartPosition("earliest"))
    finally:
        consumer.close()
    owned = deployment.spec.owned
    # No cut of this shard moves the partitions of the others: any offset there is reached.
    wanted, low = (
        tuple(at if p in owned else 0 for p, at in enumerate(each)) for each in (wanted, low)
    )
    if not any(wanted) and not _is_divided(deployment):
        zero = (0,) * partitions
        return StateOrigin(0, zero), Start(0, zero, 0)
    logged = history(deployment)
    found = _first(logged.cuts, wanted) or _first(logged.cuts[-1:], low)
    if found is None and may_cut:
        _write_cut(deployment, logged, low)
        logged = history(deployment)
        found = _first(logged.cuts[-1:], low)
    if found is None:
        raise UserError(
            f"{topics.cuts}: no cut reaches the oldest records of {topics.ratings} (offsets "
            f"{list(low)}); murmurec worker --accept-gap writes one, "
            "and the records before it are lost"
        )
    cut, cut_offset = found
    contract = logged.contract(cut.number)
    origin = StateOrigin(
        cut.number,
        cut.end_offsets,
        truncated=True,
        excluded=logged.forgotten(cut.number),
        contract=contract,
    )
    return origin, Start(cut.number, cut.end_offsets, cut_offset, contract)


def _is_divided(deployment: Deployment) -> bool:
    """Return whether the log of a shard begins with the division of another state, whose records it
    does not read."""
    owned = deployment.spec.owned
    if len(owned) == deployment.partitions:
        return False
    first = (cut.end_offsets for cut, _ in history(deployment).cuts[:1])
    return any(end for ends in first for p, end in enumerate(ends) if p not in owned)


def _first(cuts: Sequence[tuple[Cut, int]], wanted: tuple[int, ...]) -> tuple[Cut, int] | None:
    """Return the first cut whose round ends at or after the wanted offsets."""
    for cut, cut_offset in cuts:
        if all(end >= want for end, want in zip(cut.end_offsets, wanted, strict=True)):
            return cut, cut_offset
    return None


def _write_cut(
    deployment: Deployment,
    logged: CutHistory,
    low: tuple[int, ...],
) -> None:
    """Append a cut at the oldest records that Kafka holds: older cuts cannot be reached."""
    ends = logged.cuts[-1][0].end_offsets if logged.cuts else (0,) * len(low)
    moved = tuple(max(end, first) for end, first in zip(ends, low, strict=True))
    cut = Cut(logged.next_number, moved, int(time.time()) // EPOCH_SECONDS)
    offline_writer.append(deployment.connection, deployment.topics.cuts, encode_message(cut))

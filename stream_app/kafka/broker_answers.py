"""Answers to queries, as every client of the workers reads them.

A query is a record of the topic `queries` under a fresh correlation id; the first worker to answer
writes to the topic `recommendations` under the same id: sealed to the key of the query
(`wire/authenticity/sealed_replies.py`), or readable for every reader of the topic if it has none.
Every writer can write some: a record is an answer only if it has the id of the query as key and in
its value, opens, and lists items. Anything else is passed over, and the wait goes on.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from confluent_kafka import Consumer, Message, TopicPartition

from stream_app.kafka import clients
from stream_app.wire import Item, Recommendation, WireError, decode_message, key_of
from stream_app.wire.authenticity.sealed_replies import SealedQuery

BUSY = "the worker is busy: ask again in a moment, or run another worker"
_LIST_SECONDS = 5.0


def ends(consumer: Consumer, topic: str) -> list[TopicPartition]:
    """Return the partitions of the topic of answers at their current ends; UserError without it."""
    found = clients.listed(consumer, _LIST_SECONDS).get(topic)
    if found is None:
        raise clients.unlisted(consumer, topic, _LIST_SECONDS)
    places = [TopicPartition(topic, partition) for partition in found.partitions]
    for place in places:
        place.offset = clients.offsets(consumer, place, _LIST_SECONDS)[1]
    return places


@dataclass(frozen=True)
class Answer:
    """An answer, and its number of bytes, which a worker makes the same for all."""

    reply: Recommendation
    size: int


def answer_in(message: Message | None, correlation_id: str) -> Recommendation | None:
    """Return the answer to this query, which has no key, in a record; None where the record is
    anything else."""
    if message is None or not _is_under(message, correlation_id):
        return None
    return _answer_of(message.value(), correlation_id)


def sealed_answer_in(message: Message | None, asked: SealedQuery) -> Answer | None:
    """Return the answer to this query in a record; None where the record is anything else, which
    is counted if it has the id of the query."""
    if message is None or not _is_under(message, asked.query.id):
        return None
    value = asked.opened(message.value())
    reply = None if value is None else _answer_of(value, asked.query.id)
    if value is None or reply is None:
        asked.refused += 1
        return None
    return Answer(reply, len(value))


def refused_replies(count: int) -> str:
    """Return the sentence for records that were no answer to the query under whose id they came."""
    return (
        f"{count} replies were refused: not sealed to this query, so forged, damaged, or of a "
        "worker of an earlier release (update the workers)"
    )


def _is_under(message: Message, correlation_id: str) -> bool:
    return message.error() is None and message.key() == correlation_id.encode()


def _answer_of(value: bytes | None, correlation_id: str) -> Recommendation | None:
    try:
        reply: Recommendation = decode_message(Recommendation, value)
    except WireError:
        return None
    return reply if reply.id == correlation_id and _is_whole(reply) else None


def _is_whole(reply: Recommendation) -> bool:
    if len(reply.items) != len(reply.scores) or len(reply.because) > len(reply.items):
        return False
    try:
        for item in (*reply.items, *reply.because):
            if item is not None:
                key_of(item)
    except ValueError:
        return False
    return True


def entries(reply: Recommendation) -> list[tuple[Item, float | None, Item | None]]:
    """Return the items of an answer with their scores and what each is for; a list that is drawn
    has no scores."""
    because = (*reply.because, *(None,) * (len(reply.items) - len(reply.because)))
    return [
        (item, score, cause)
        for item, score, cause in zip(reply.items, reply.scores, because, strict=True)
        if item is not None and (score is not None or reply.guarantee is not None)
    ]


def refusal(reply: Recommendation, options: Collection[str]) -> str:
    """Return the sentence for a query that was refused; a worker of an earlier release gives no
    reason, and knows no option."""
    if reply.reason is not None:
        return f"the query was refused: {reply.reason}"
    if options:
        return (
            f"the worker refused the query and its option {', '.join(options)}: a worker of an "
            "earlier release knows none; update the worker"
        )
    return f"the worker answered {reply.status}: the query was rejected"

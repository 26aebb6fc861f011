"""Answers to queries, as every client of the workers reads them.

A query is a record of the topic `queries` under a fresh correlation id; the first worker to answer
writes to the topic `recommendations` under the same id, sealed to the key of the query. Every
writer can write some: a record is an answer only if it has the id of the query as key and in its
value, opens, and lists items. Anything else is passed over, and the wait goes on.
"""

from __future__ import annotations

from dataclasses import dataclass

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from stream_app.kafka import clients
from stream_app.wire import Listed, Query, Recommendation, WireError, decode_message, key_of
from stream_app.wire.authenticity.sealed_replies import SealedQuery
from stream_app.wire.ids import partition_of

BUSY = "the worker is busy: ask again in a moment, or run another worker"
_LIST_SECONDS = 5.0
_BY_KEY = -1  # librdkafka's for: by the key


def ends(consumer: Consumer, topic: str) -> list[TopicPartition]:
    """Return the partitions of the topic of answers at their current ends; UserError without it."""
    found = clients.listed(consumer, _LIST_SECONDS).get(topic)
    if found is None:
        raise clients.unlisted(consumer, topic, _LIST_SECONDS)
    places = [TopicPartition(topic, partition) for partition in found.partitions]
    for place in places:
        place.offset = clients.offsets(consumer, place, _LIST_SECONDS)[1]
    return places


def query_partitions(client: Consumer | Producer, topic: str) -> int:
    """Return how many partitions the topic of queries has, 0 where it is not seen."""
    found = clients.listed(client, _LIST_SECONDS).get(topic)
    return 0 if found is None else len(found.partitions)


def place_of(query: Query, partitions: int) -> int:
    """Return the partition for a query: of so many, that of its user, as of the user's ratings, so
    that workers of the user's shard read it. One about no user, or of an unknown number, goes by
    its key."""
    if query.user is None or not partitions:
        return _BY_KEY
    return partition_of(query.user.encode(), partitions)


@dataclass(frozen=True)
class Answer:
    """An answer, and its number of bytes, which a worker makes the same for all."""

    reply: Recommendation
    size: int


def sealed_answer_in(message: Message | None, asked: SealedQuery) -> Answer | None:
    """Return the answer to a query in a record; None for any other, counted if it has its id."""
    id = asked.query.id
    if message is None or message.error() is not None or message.key() != id.encode():
        return None
    value = asked.opened(message.value())
    reply = answer_of(value, id)
    if value is None or reply is None:
        asked.refused += 1
        return None
    return Answer(reply, len(value))


def refused_replies(count: int) -> str:
    """Return what to add to a sentence about records under a query's id that were no answer."""
    return f"; {count} replies were refused, not sealed to this query: forged" * bool(count)


def answer_of(value: bytes | None, correlation_id: str) -> Recommendation | None:
    """Return the answer to this query that bytes are; None where they are anything else."""
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


def entries(reply: Recommendation) -> list[tuple[Listed, float | None, Listed | None]]:
    """Return the items of an answer with their scores and what each is for."""
    because = (*reply.because, *(None,) * (len(reply.items) - len(reply.because)))
    return [
        (item, score, cause)
        for item, score, cause in zip(reply.items, reply.scores, because, strict=True)
        if item is not None and score is not None
    ]


def refusal(reply: Recommendation) -> str:
    """Return the sentence for a query that was refused."""
    return f"the query was refused: {reply.reason or 'the worker gives no reason'}"

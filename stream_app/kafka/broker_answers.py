"""Answers to queries, as every client of the workers reads them.

A query is a record of the topic `queries` under a fresh correlation id; the first worker to answer
writes to the topic `recommendations` under the same id. Every reader of that topic can read all
answers, and every writer can write some: a record is an answer only if it has the id of the query
as key and in its value, and lists items.
"""

from __future__ import annotations

from collections.abc import Collection

from confluent_kafka import Consumer, Message, TopicPartition

from stream_app.kafka import clients
from stream_app.wire import Item, Recommendation, WireError, decode_message, key_of

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


def answer_in(message: Message | None, correlation_id: str) -> Recommendation | None:
    """Return the answer to this query in a record; None where the record is anything else."""
    if message is None or message.error() is not None:
        return None
    if message.key() != correlation_id.encode():
        return None
    try:
        reply: Recommendation = decode_message(Recommendation, message.value())
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

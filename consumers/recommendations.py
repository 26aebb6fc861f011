"""A client that asks for recommendations over Kafka.

    with Recommendations("localhost:9092") as recommendations:
        answer = recommendations.best("0123456789abcdef0123456789abcdef", k=10)
        answer.items        # (1193, 661, ...)

A query goes to the topic `queries` under a fresh correlation id; the first worker to answer writes
to the topic `recommendations` under the same id, sealed to a one-time key of the query. A record
that is no answer to it is refused, and the client waits on. A user is named by a pseudonym (32 hex
characters), which only the user's device can compute.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Collection, Mapping
from typing import Any, Self

import msgspec
from confluent_kafka import KafkaError, Message

from producers.deployed import deployed
from stream_app import wire
from stream_app.errors import UserError
from stream_app.kafka import broker_answers as answers
from stream_app.kafka import clients, passing
from stream_app.kafka.clients import Connection
from stream_app.wire.authenticity.sealed_replies import SealedQuery


class RecommendedItems(msgspec.Struct, frozen=True):
    """The best items for one user, best first, with predicted ratings on the scale 1 .. 5, which
    need not fall; `left_out` items of the list were excluded by the caller. `ndcg`: measured
    nDCG@10 of the lists of `method`, `ndcg_popular` that of popular items; None while unknown.
    `because`: for each item the rated item that contributes most, None where the server knows of
    none. `for_`: the visit that the list is for, None where it is for none."""

    items: tuple[wire.Listed, ...]
    scores: tuple[float, ...]
    method: str
    as_of: int
    privacy: str
    seconds: float
    left_out: int = 0
    ndcg: float | None = None
    ndcg_popular: float | None = None
    because: tuple[wire.Listed | None, ...] = ()
    for_: wire.Visit | None = None


class Recommendations:
    """Sends one query at a time and waits for its answer; not for use by several threads at once.

    Args:
        bootstrap: address of the Kafka cluster, or a `Connection`; None takes that of the settings
            (`MURMUREC_BOOTSTRAP_SERVERS`).
        prefix: first part of the topics' names; None takes that of the settings.

    Raises `UserError` for a cluster that does not answer, and without the topic of the answers.
    """

    def __init__(
        self, bootstrap: str | Connection | None = None, prefix: str | None = None
    ) -> None:
        settings = deployed()
        connection = clients.connection(bootstrap, settings)
        prefix = prefix or settings.topic_prefix
        self._topics = wire.Topics(prefix)
        self._producer = clients.producer(connection, linger_ms=0)
        self._consumer = clients.consumer(connection, group=f"{prefix}-ask")
        self._refused: KafkaError | None = None
        self._listen()

    def _listen(self) -> None:
        """Read the topic of answers from its current end, without joining a group."""
        self._consumer.assign(answers.ends(self._consumer, self._topics.recommendations))
        self._partitions = answers.query_partitions(self._consumer, self._topics.queries)

    def best(
        self,
        user: str,
        k: int = 10,
        seconds: float = 2.0,
        excluded: Collection[int] | None = None,
        for_: wire.Visit = "next",
    ) -> RecommendedItems:
        """Return the best k items for the user with this pseudonym.

        `for_`: what is liked at the "next" visit, or "now", in this one.
        `excluded`: keys of items to leave out, e.g. what the user has rated where the server cannot
        know it. They are removed here, from the longest list, and never sent; that list is asked
        for even if they are none, since a shorter one would show that nothing was rated.
        Raises UserError without an answer within `seconds`, or for a rejected query; ValueError for
        a k outside 1 .. `LIST_LENGTH`, a bad pseudonym or another visit.
        """
        if len(user) != 32 or set(user) - set("0123456789abcdef"):
            raise ValueError("user: a pseudonym has 32 lower-case hex characters")
        now = "now" if wire.is_now(for_) else None
        return self._asked(user, k, seconds, excluded, {"for_": now})

    def similar(
        self,
        item: wire.Item,
        k: int = 10,
        seconds: float = 2.0,
        excluded: Collection[int] | None = None,
    ) -> RecommendedItems:
        """Return the k items that are nearest to one, best first, for no user; errors and
        `excluded` as in `best`, and ValueError for what is no item."""
        wire.key(item)
        return self._asked(None, k, seconds, excluded, {"similar_to": item})

    def _asked(
        self,
        user: str | None,
        k: int,
        seconds: float,
        excluded: Collection[int] | None,
        options: Mapping[str, Any],
    ) -> RecommendedItems:
        if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= wire.LIST_LENGTH:
            raise ValueError(f"k {k!r}: ask for 1 to {wire.LIST_LENGTH} items")
        given = {name: value for name, value in options.items() if value is not None}
        self._refused = None
        started = time.monotonic()
        asked = k if excluded is None else wire.LIST_LENGTH
        deadline = int((time.time() + seconds) * 1000)
        sealed = SealedQuery(wire.Query(secrets.token_hex(8), user, asked, deadline, **given))
        query = sealed.query
        self._producer.produce(
            self._topics.queries,
            key=query.id.encode(),
            value=wire.encode_message(query),
            partition=answers.place_of(query, self._partitions),
            on_delivery=self._delivered,
        )
        while time.monotonic() < started + seconds:
            self._producer.poll(0)
            if self._refused is not None:
                fault = f"{self._topics.queries}: {self._refused.str()}"
                what = f"topic {self._topics.queries}"
                raise UserError(passing.refusal(self._refused, what, "WRITE", fault))
            message = self._consumer.poll(0.05)
            found = answers.sealed_answer_in(message, sealed)
            if found is not None:
                taken = time.monotonic() - started
                return _best(found.reply, k, taken, excluded or ())
        raise UserError(
            f"no answer within {seconds:g} s: is a worker running on prefix {self._topics.prefix}, "
            f"and is it ready (/readyz)?{answers.refused_replies(sealed.refused)}"
        )

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        self._refused = error

    def close(self) -> None:
        """Close the connection."""
        self._producer.flush(1.0)
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _best(
    reply: wire.Recommendation, k: int, seconds: float, excluded: Collection[int]
) -> RecommendedItems:
    if reply.status is wire.Status.BUSY:
        raise UserError(answers.BUSY)
    if reply.status is not wire.Status.OK:
        raise UserError(answers.refusal(reply))
    found = answers.entries(reply)
    listed = len(found)
    if excluded:
        found = [row for row in found if wire.key_of(row[0]) not in excluded]
    left_out, found = listed - len(found), found[:k]
    return RecommendedItems(
        tuple(item for item, _, _ in found),
        tuple(math.nan if score is None else score for _, score, _ in found),
        reply.method,
        reply.as_of,
        reply.privacy,
        seconds,
        left_out,
        reply.ndcg,
        reply.ndcg_popular,
        tuple(cause for _, _, cause in found),
        None if reply.for_ is msgspec.UNSET else reply.for_,
    )

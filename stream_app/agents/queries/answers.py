"""Answers queries on the event loop, a few at a time, and writes the replies.

Every query that was read has one outcome, and a reply that says so: answered, refused, busy or
expired. `done` is called when the broker has the reply. At most `_MOST_WAITING` queries wait; one
more is refused as busy. While the broker has yet to acknowledge `_MOST_UNSENT_BYTES` of replies, no
query is answered, and none is read while a refusal waits. A reply that the broker did not take is
sent again while somebody may wait for it: the process may have been frozen. One that the broker
will never take ends the process.

A reply is a `Recommendation` as JSON, spaces up to `reply_bytes`; sealed, if the query has a key.
It has `LIST_LENGTH` entries and is keyed by the correlation id, so its length reveals neither k nor
the list: it depends on the longest id that the public catalogue has had while this worker ran;
without padding, ids of different lengths would say which items are listed. White space after a JSON
value is part of no value, so a reader needs no change. Refusals have the size of any other reply.

Which part of a worker answers a query, by the query's option.

    no option     the list of a user for the next visit           `Recommender.answer`
    for           the same for the next visit, or for this one
    similar_to    items near to one item                          `similar_items`

The queries that have no outcome yet are kept, so that none is committed before its reply.

    partition   0 1 2 3 4 5 6 | 7        read: 0 .. 6, replies acknowledged: 0 1 3
                    ^                    the group goes on with 2 if this worker ends now

A query is behind the group once the broker has its reply. So a query is answered at least once: one
whose worker was killed in between is read again, and a second reply to it has the same correlation
id, of which readers take the first. Without I/O; for one thread.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Collection
from functools import lru_cache, partial

import msgspec
from confluent_kafka import KafkaError, Message, Producer
from msgspec import UNSET

from stream_app.agents.runtime import Runtime
from stream_app.errors import UserError
from stream_app.kafka import clients, passing
from stream_app.serving.catalogue import Catalogue
from stream_app.serving.ranked_items import RankedItems, Refused
from stream_app.wire import (
    LIST_LENGTH,
    Listed,
    Query,
    Recommendation,
    Status,
    encode_message,
)
from stream_app.wire.authenticity.sealed_replies import reply_record
from stream_app.wire.messages import reply_bytes as reply_bytes_of

Done = Callable[[], object]


class Accepted:
    """By partition, the offset behind the last query read, and those without an outcome."""

    def __init__(self) -> None:
        self._next: dict[int, int] = {}
        self._open: dict[int, dict[int, None]] = {}  # in the order of the offsets
        self._stored: dict[int, int] = {}

    def begin(self, partition: int) -> None:
        """Follow a partition that was assigned."""
        self._open[partition] = {}

    def end(self, partition: int) -> None:
        """Forget a partition: what is done of it from now on is another worker's to commit."""
        for each in (self._next, self._open, self._stored):
            each.pop(partition, None)

    def read(self, partition: int, offset: int) -> Done:
        """Note that a query was read; returns what to call at its outcome."""
        queries = self._open.get(partition)
        if queries is None:  # taken away between the two
            return _nothing
        self._next[partition], queries[offset] = offset + 1, None
        return lambda: queries.pop(offset, None)

    def waiting(self, partitions: Collection[int]) -> int:
        """Return how many queries of these partitions have no outcome."""
        return sum(len(self._open.get(partition, ())) for partition in partitions)

    @property
    def partitions(self) -> list[int]:
        """The partitions that are followed."""
        return list(self._open)

    def places(self) -> dict[int, int]:
        """Return where the group goes on, of the partitions where that has moved since the last
        call."""
        found = {p: next(iter(self._open[p]), end) for p, end in self._next.items()}
        moved = {p: offset for p, offset in found.items() if self._stored.get(p) != offset}
        self._stored |= moved
        return moved


def _nothing() -> None:
    """Do nothing."""


def recommendation(runtime: Runtime, correlation_id: str, answer: RankedItems) -> Recommendation:
    """Return the reply: the recommendations, padded to the fixed length."""
    names = [runtime.catalogue.name(int(item)) for item in answer.items]
    scores = [_score(score) for score in answer.scores]
    missing = [None] * (LIST_LENGTH - len(names))
    because = [_named(runtime.catalogue, item) for item in answer.because]
    return Recommendation(
        correlation_id,
        Status.OK,
        (*names, *missing),
        (*scores, *missing),
        answer.method,
        answer.as_of,
        runtime.privacy,
        runtime.catching_up,
        answer.ndcg,
        answer.ndcg_popular,
        (*because, *(None,) * (LIST_LENGTH - len(because))),
        for_=UNSET if answer.now is None else "now" if answer.now else "next",
    )


def encoded_refusal(
    runtime: Runtime, correlation_id: str, status: Status, reason: str | None = None
) -> bytes:
    """Return a reply without recommendations, of the same length as any other, as bytes; a flood of
    one reason is encoded once for each state."""
    of_state = runtime.replica.cut, runtime.privacy_at_cut, runtime.catching_up
    before, after = _around_id(status, reason, *of_state)
    value = b'%b"id":"%b"%b' % (before, correlation_id.encode(), after)
    return _padded(value, reply_bytes(runtime.catalogue))


@lru_cache(maxsize=8)
def _around_id(
    status: Status, reason: str | None, cut: int, privacy: str, catching_up: bool
) -> tuple[bytes, bytes]:
    nothing = (None,) * LIST_LENGTH
    reply = Recommendation(
        "", status, nothing, nothing, "none", cut, privacy, catching_up,
        because=nothing, reason=reason,
    )  # fmt: skip
    before, _, after = encode_message(reply).partition(b'"id":""')
    return before, after


def _score(score: float) -> float | None:
    """Return what a reply shows of a score; None of one that is not known."""
    return None if math.isnan(score) else round(float(score), 4)


def _named(catalogue: Catalogue, item: int | None) -> Listed | None:
    return None if item is None else catalogue.name(item)


def reply_bytes(catalogue: Catalogue) -> int:
    """Return the number of bytes of every reply over Kafka."""
    return reply_bytes_of(catalogue.longest_name)


def encoded_reply(reply: Recommendation, catalogue: Catalogue) -> bytes:
    """Return a reply as `reply_bytes` bytes."""
    return _padded(encode_message(reply), reply_bytes(catalogue))


def _padded(value: bytes, size: int) -> bytes:
    if len(value) > size:
        raise ValueError(f"a reply of {len(value)} bytes: every reply has {size}")
    return value.ljust(size)


_MOST_WAITING = 256  # about 50 ms of answers
_AT_ONCE = 8  # answers before the event loop serves others
_MOST_UNSENT_BYTES = 8 << 20  # half of what the producer of the replies holds
_PAUSE_SECONDS = 0.01
_AGAIN_SECONDS = 30.0  # after the deadline of a query
_NOT_TAKEN = (KafkaError._MSG_TIMED_OUT, KafkaError.UNKNOWN)  # for now: no broker, or a full disk


class Answers:
    """The queries that wait for the event loop, and the producer of the replies.

    Make it inside the running loop; `offer`, `refuse` and `serve` are for the reader's thread.
    """

    def __init__(self, runtime: Runtime, producer: Producer) -> None:
        self._runtime = runtime
        self._producer = producer
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[Query, float, Done]] = deque()
        self._scheduled = False

    def offer(self, query: Query, arrived: float, done: Done) -> bool:
        """Let the event loop answer a query; False where too many wait already."""
        self._runtime.status.last_query_time = time.monotonic()
        if len(self._waiting) >= _MOST_WAITING:
            return False
        self._waiting.append((query, arrived, done))
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon_threadsafe(self._answer)
        return True

    def refuse(self, id: str, reason: str, done: Done) -> None:
        """Reply in the clear with the reason why a record is no query."""
        value = encoded_refusal(self._runtime, id, Status.REFUSED, reason)
        self._send(id.encode(), value, time.time() + _AGAIN_SECONDS, done)

    def turn_away(self, query: Query, done: Done) -> None:
        """Reply that the query has expired, or else that too many wait."""
        if query.deadline < time.time() * 1000:
            self._runtime.metrics.query_expired()
            value = encoded_refusal(self._runtime, query.id, Status.REFUSED, EXPIRED)
        else:
            self._runtime.metrics.query_busy()
            value = encoded_refusal(self._runtime, query.id, Status.BUSY)
        self._reply(query, value, done)

    def wait_for_room(self, given_up: Callable[[], bool]) -> bool:
        """Return whether the producer takes one more reply, at the latest when that is `given_up`:
        a reply that the broker does not take makes room in the end."""
        while not self.has_room:
            if given_up():
                return False
            self.serve(_PAUSE_SECONDS)
        return True

    def serve(self, seconds: float = 0.0) -> None:
        """Process the delivery reports of replies, for so long at most until one comes."""
        self._producer.poll(seconds)

    @property
    def has_room(self) -> bool:
        """Whether the producer takes one more reply."""
        unsent = len(self._producer) * reply_bytes(self._runtime.catalogue)
        return unsent < _MOST_UNSENT_BYTES

    def _answer(self) -> None:
        try:
            for _ in range(min(_AT_ONCE, len(self._waiting))):
                if not self.has_room:
                    self._loop.call_later(_PAUSE_SECONDS, self._answer)
                    return
                self._answer_one(*self._waiting.popleft())
        except BaseException as reason:  # noqa: BLE001 - a defect ends the process
            self._runtime.status.fail(reason)
            return
        # Cleared before the last look: a query that is offered meanwhile schedules again.
        self._scheduled = False
        if self._waiting:
            self._scheduled = True
            self._loop.call_soon(self._answer)

    def _answer_one(self, query: Query, arrived: float, done: Done) -> None:
        if query.deadline < time.time() * 1000:
            self.turn_away(query, done)
            return
        found = outcome(self._runtime, query, arrived)
        if isinstance(found, Refused):
            self._runtime.metrics.query_refused()
            value = encoded_refusal(self._runtime, query.id, Status.REFUSED, found.reason)
        else:
            reply = recommendation(self._runtime, query.id, found)
            value = encoded_reply(reply, self._runtime.catalogue)
        self._reply(query, value, done)

    def _reply(self, query: Query, value: bytes, done: Done) -> None:
        try:
            value = reply_record(query, value)
        except ValueError as error:
            self.refuse(query.id, str(error), done)
            return
        until = max(query.deadline / 1000, time.time()) + _AGAIN_SECONDS
        self._send(query.id.encode(), value, until, done)

    def _send(self, key: bytes, value: bytes, until: float, done: Done) -> None:
        """Queue a reply; where the client takes none the process ends: its query is read again."""
        delivered = partial(self._delivered, until, done)
        topic = self._runtime.topics.recommendations
        try:
            clients.send(self._producer, topic, key=key, value=value, on_delivery=delivered)
        except (BufferError, UserError) as reason:
            self._runtime.status.fail_from_thread(reason)

    def _delivered(
        self, until: float, done: Done, error: KafkaError | None, message: Message
    ) -> None:
        if error is None:
            done()
        elif not (passing.passes(error) or error.code() in _NOT_TAKEN):
            topic = self._runtime.topics.recommendations
            self._runtime.status.fail_from_thread(passing.unwritten(error, topic, "a reply"))
        elif time.time() < until:
            key, value = message.key() or b"", message.value() or b""
            self._send(key, value, until, done)
        else:
            done()  # a reply that came too late is lost: its reader waits no longer


Outcome = RankedItems | Refused

TWO_OPTIONS = "similar_to, for: give at most one of them in a query"
EXPIRED = (
    "expired: its deadline had passed when a worker could answer; ask again, and if no worker was "
    "away compare the clocks"
)
NO_USER = "user: a pseudonym of 32 hex characters is missing"
A_USER = "similar_to: such a query names no user"


def outcome(runtime: Runtime, query: Query, arrived: float) -> Outcome:
    """Return the answer to a query; `arrived`: its perf_counter."""
    options = query.options
    if len(options) > 1:
        return Refused(TWO_OPTIONS)
    if query.similar_to is not msgspec.UNSET:
        if query.user is not None:
            return Refused(A_USER)
        return runtime.similar(query.similar_to, arrived)
    if query.user is None:
        return Refused(NO_USER)
    return runtime.answer(bytes.fromhex(query.user), arrived, now=query.for_ == "now")

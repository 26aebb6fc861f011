"""Answers queries on the event loop, a few at a time, and writes the replies.

Every query that was read has one outcome: answered, refused, busy or expired. At most
`_MOST_WAITING` queries wait; one more is refused as busy. While the broker has yet to acknowledge
`_MOST_UNSENT_BYTES` of replies, no query is answered, and none is read while a refusal waits. A
worker that ends answers first what it has read, as far as it can within a second.

Every reply has `LIST_LENGTH` entries, one size in bytes (`replies`), and is keyed by the
correlation id, so its length reveals neither k nor the list.

Which part of a worker answers a query, by the query's option.

    no option     the list of a user for the next visit           `Recommender.answer`
    for           the same for the next visit, or for this one
    similar_to    items near to one item                          `serving/together/`
    private       a list that is drawn, of a stated guarantee     `Runtime.private_lists`
    neighbours    what devices with a similar profile have        `Runtime.neighbours`

An answer that has to wait (for the log of budgets, say) is awaitable; the event loop goes on with
other queries meanwhile. What a worker does not serve is refused with the setting that is missing.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections import deque
from collections.abc import Awaitable, Callable
from fractions import Fraction

import msgspec
import structlog
from confluent_kafka import KafkaError, Message, Producer

from stream_app.agents.queries.replies import encoded_reply, recommendation, refusal, reply_bytes
from stream_app.agents.runtime import Runtime
from stream_app.errors import UserError
from stream_app.kafka import clients, passing
from stream_app.serving.ranked_items import RankedItems, Refused
from stream_app.wire import Query, Recommendation, Status

log = structlog.get_logger()
_MOST_WAITING = 256  # about 50 ms of answers
_AT_ONCE = 8  # answers before the event loop serves others
_MOST_UNSENT_BYTES = 8 << 20  # half of what the producer of the replies holds
_PAUSE_SECONDS = 0.01
_LOST = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
)


class Answers:
    """The queries that wait for the event loop, and the producer of the replies.

    Make it inside the running loop; `offer`, `refuse` and `serve` are for the reader's thread.
    """

    def __init__(self, runtime: Runtime, producer: Producer) -> None:
        self._runtime = runtime
        self._producer = producer
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[Query, float]] = deque()
        self._scheduled = False
        self._later: set[asyncio.Task[None]] = set()

    def offer(self, query: Query, arrived: float) -> bool:
        """Let the event loop answer a query; False where too many wait already."""
        self._runtime.status.last_query_time = time.monotonic()
        if len(self._waiting) >= _MOST_WAITING:
            return False
        self._waiting.append((query, arrived))
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon_threadsafe(self._answer)
        return True

    def refuse(self, correlation_id: str, status: Status, reason: str | None = None) -> None:
        """Reply without recommendations."""
        self._reply(refusal(self._runtime, correlation_id, status, reason))

    def turn_away(self, query: Query, ended: Callable[[], bool]) -> None:
        """Reply that too many queries wait; with no room for the reply, wait for it until the
        query expires or the worker has `ended`."""
        if self.wait_for_room(lambda: ended() or query.deadline < time.time() * 1000) or ended():
            self._runtime.metrics.query_busy()
            self.refuse(query.id, Status.BUSY)
        else:
            self._runtime.metrics.query_expired()

    def wait_for_room(self, given_up: Callable[[], bool]) -> bool:
        """Return whether the producer takes one more reply, at the latest when that is `given_up`:
        a reply that the broker does not take within 10 s makes room."""
        while not self.has_room:
            if given_up():
                return False
            self._producer.poll(_PAUSE_SECONDS)
        return True

    def serve(self) -> None:
        """Process the delivery reports of replies."""
        self._producer.poll(0)

    @property
    def has_room(self) -> bool:
        """Whether the producer takes one more reply."""
        unsent = len(self._producer) * reply_bytes(self._runtime.catalogue)
        return unsent < _MOST_UNSENT_BYTES

    async def finish(self, seconds: float) -> None:
        """Answer the queries that wait, and hand their replies to the broker, within so many
        seconds; for the end of the worker, when nothing is offered any more."""
        deadline = time.monotonic() + seconds
        while (self._waiting or self._later) and time.monotonic() < deadline:
            self._producer.poll(0)  # the reader's thread has ended
            await asyncio.sleep(_PAUSE_SECONDS)
        if dropped := len(self._waiting) + len(self._later):
            log.warning("queries.dropped", queries=dropped)
        left = max(0.0, deadline - time.monotonic())
        await asyncio.get_running_loop().run_in_executor(None, self._producer.flush, left)

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

    def _answer_one(self, query: Query, arrived: float) -> None:
        runtime = self._runtime
        if query.deadline < time.time() * 1000:
            runtime.metrics.query_expired()
            return
        found = outcome(runtime, query, arrived)
        if not inspect.isawaitable(found):
            self._finish(query, found)
        elif len(self._later) >= _MOST_WAITING:
            runtime.metrics.query_busy()
            self.refuse(query.id, Status.BUSY)
        else:
            task = self._loop.create_task(self._answer_later(query, found))
            self._later.add(task)
            task.add_done_callback(self._later.discard)

    async def _answer_later(self, query: Query, found: Awaitable[Outcome]) -> None:
        try:
            outcome = await found
            while not self.has_room:
                await asyncio.sleep(_PAUSE_SECONDS)
            self._finish(query, outcome)
        except Exception as reason:  # noqa: BLE001 - a defect ends the process
            self._runtime.status.fail(reason)

    def _finish(self, query: Query, found: Outcome) -> None:
        if isinstance(found, Refused):
            self._runtime.metrics.query_refused()
            self.refuse(query.id, Status.REFUSED, found.reason)
        else:
            self._reply(recommendation(self._runtime, query.id, found))

    def _reply(self, reply: Recommendation) -> None:
        """Queue a reply; one that a full queue does not take is dropped, and the log says so."""
        try:
            clients.send(
                self._producer,
                self._runtime.topics.recommendations,
                key=reply.id.encode(),
                value=encoded_reply(reply, self._runtime.catalogue),
                on_delivery=self._delivered,
            )
        except BufferError:
            log.warning("replies.dropped", waiting=len(self._producer))

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        # A reply that came too late is lost: its reader waits no longer.
        if error is not None and error.code() in _LOST:
            topic = self._runtime.topics.recommendations
            fault = (
                f"{topic}: a reply could not be written ({error.str()}); check that the topic "
                "exists"
            )
            self._runtime.status.fail_from_thread(
                UserError(passing.refusal(error, f"topic {topic}", "WRITE", fault))
            )


Outcome = RankedItems | Refused

TWO_OPTIONS = "similar_to, private, neighbours, for: give at most one of them in a query"
NO_USER = "user: a pseudonym of 32 hex characters is missing"
A_USER = "similar_to: such a query names no user"
NO_PRIVATE_LISTS = (
    "private lists are not served: the operator has set no budget for them (list_budget)"
)
NO_NEIGHBOURS = "neighbours are not served: the operator accepts no profiles (profile_mechanisms)"


def outcome(runtime: Runtime, query: Query, arrived: float) -> Outcome | Awaitable[Outcome]:
    """Return the answer to a query, now or when it is awaited; `arrived`: its perf_counter."""
    options = query.options
    if len(options) > 1:
        return Refused(TWO_OPTIONS)
    if query.similar_to is not msgspec.UNSET:
        if query.user is not None:
            return Refused(A_USER)
        return runtime.similar(query.similar_to, arrived)
    if query.user is None:
        return Refused(NO_USER)
    device = bytes.fromhex(query.user)
    if query.private is not msgspec.UNSET:
        return _private(runtime, device, query.private, query)
    if query.neighbours is True:
        lists = runtime.neighbours
        if lists is None:
            return Refused(NO_NEIGHBOURS)
        return lists.answer(device, arrived)
    return runtime.answer(device, arrived, now=query.for_ == "now")


def _private(
    runtime: Runtime, device: bytes, epsilon: Fraction, query: Query
) -> Outcome | Awaitable[Outcome]:
    lists = runtime.private_lists
    if lists is None:
        return Refused(NO_PRIVATE_LISTS)
    return lists.answer(device, epsilon, query.k, query.id)

"""Appends debits of private lists to their log, and reads the log from its beginning.

    debit --append--> list-debits.v1 --read back, in order--> ListBudgets --verdict--> the caller

One thread reads and serves delivery reports. A caller gets the verdict of its own record alone; one
that stops waiting never draws, and its debit stays. A log of which the beginning or the end is
missing ends the worker: what was spent would be forgotten.
"""

from __future__ import annotations

import asyncio
import secrets

from confluent_kafka import KafkaError, Message, TopicPartition

from stream_app.agents.crash_guard import ThreadService
from stream_app.agents.runtime import Runtime
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.acknowledged_writer import AcknowledgedWriter
from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_follower import TopicFollower, cannot_be_read
from stream_app.log.list_budgets import ListBudgets, Verdict
from stream_app.wire import encode_message
from stream_app.wire.messages import ListDebit

_POLL_SECONDS = 0.05
_WAIT_SECONDS = 10.0


class DebitLog(ThreadService):
    """The service that runs the thread while the application runs; make it in the event loop."""

    def __init__(self, runtime: Runtime, connection: Connection, budget: int) -> None:
        super().__init__("debits", runtime.status)
        self.budgets = ListBudgets()
        self.budget = budget
        self._topic = runtime.topics.list_debits
        self._connection = connection
        self._writer = AcknowledgedWriter(
            clients.producer(connection, linger_ms=0),
            self._topic,
            runtime.status.fail_from_thread,
            "a debit",
        )
        self._waiting: dict[str, asyncio.Future[Verdict]] = {}
        self._reading_loop = asyncio.get_running_loop()
        self._at_end = False

    def has_read(self) -> bool:
        """Return whether all that the log held at the start has been read."""
        return self._at_end

    async def debit(self, user: str, query: str, epsilon: int) -> Verdict | None:
        """Append a debit of millionths and return what the log makes of it; None where it was not
        read back in time, so that it may have been spent for nothing."""
        name = secrets.token_hex(16)
        record = ListDebit(user, query, name, epsilon, self.budget)
        future: asyncio.Future[Verdict] = self._reading_loop.create_future()
        self._waiting[name] = future
        try:
            self._writer.send(key=user.encode(), value=encode_message(record))
            async with asyncio.timeout(_WAIT_SECONDS):
                return await future
        except (BufferError, TimeoutError):
            return None
        finally:
            del self._waiting[name]

    def _run(self) -> None:
        with self._follower() as follower:
            while not self.thread.ended:
                for message in follower.take(_POLL_SECONDS):
                    self._take(message)
                self._at_end = self._at_end or bool(follower.at_end)
                self._writer.poll()

    def _follower(self) -> TopicFollower:
        follower = TopicFollower(
            self._connection,
            f"{self._topic}-reading",
            self._refuse,
            fetch_wait_max_ms=20,
            fetch_queue_backoff_ms=2,
        )
        place = TopicPartition(self._topic, 0, 0)
        first, _ = clients.offsets(follower.consumer, place)
        if first > 0:
            follower.close()
            raise UserError(
                f"topic {self._topic} begins at offset {first}: its first debits are gone, so what "
                "users have spent is not known; restore it, or set list_budget to 0"
            )
        follower.begin(place)
        return follower

    def _take(self, message: Message) -> None:
        found = self.budgets.apply(_bytes(message.key()), _bytes(message.value()))
        if found is not None and found[0].writer in self._waiting:
            self._reading_loop.call_soon_threadsafe(self._resolve, *found)

    def _resolve(self, debit: ListDebit, verdict: Verdict) -> None:
        future = self._waiting.get(debit.writer)
        if future is not None and not future.done():
            future.set_result(verdict)

    def _refuse(self, _: Message, error: KafkaError) -> None:
        if error.code() in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET):
            raise UserError(
                f"topic {self._topic}: debits that were read are gone ({error.str()}), so what "
                "users have spent is not known; restore it, or set list_budget to 0"
            )
        raise cannot_be_read(self._topic, error)


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value

"""Appends debits of private lists to their log, and reads the log from its beginning.

    debit --append--> list-debits.v1 --read back, in order--> ListBudgets --verdict--> the caller

One thread reads and serves delivery reports. A caller gets the verdict of its own record alone; one
that stops waiting never draws, and its debit stays. A log of which the beginning or the end is
missing ends the worker: what was spent would be forgotten.
"""

from __future__ import annotations

import asyncio
import secrets
import threading

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from mode import Service

from stream_app.agents.runtime import Runtime
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.acknowledged_writer import AcknowledgedWriter
from stream_app.kafka.clients import Connection
from stream_app.kafka.passing import passes
from stream_app.log.list_budgets import ListBudgets, Verdict
from stream_app.wire import encode_message
from stream_app.wire.budgets.list_debits import ListDebit

_BATCH = 255
_POLL_SECONDS = 0.05
_WAIT_SECONDS = 10.0


class DebitLog(Service):
    """The service that runs the thread while the application runs; make it in the event loop."""

    def __init__(self, runtime: Runtime, connection: Connection, budget: int) -> None:
        super().__init__()
        self.budgets = ListBudgets()
        self.budget = budget
        self._status = runtime.status
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
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="murmurec-debits", daemon=True)

    async def on_start(self) -> None:
        """Start the thread."""
        self._thread.start()

    async def on_stop(self) -> None:
        """End the thread."""
        self._ended.set()
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join, 1.0)

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
        try:
            consumer = self._consumer()
            try:
                while not self._ended.is_set():
                    # Waits for the first record only.
                    for message in (
                        *consumer.consume(1, _POLL_SECONDS),
                        *consumer.consume(_BATCH, 0),
                    ):
                        self._take(message)
                    self._writer.poll()
            finally:
                consumer.close()
        except BaseException as reason:  # noqa: BLE001 - whatever ends the thread ends the process
            self._status.fail_from_thread(reason)

    def _consumer(self) -> Consumer:
        consumer = clients.consumer(
            self._connection,
            group=f"{self._topic}-reading",
            auto_offset_reset="error",
            fetch_wait_max_ms=20,
            fetch_queue_backoff_ms=2,
        )
        place = TopicPartition(self._topic, 0, 0)
        first, _ = clients.offsets(consumer, place)
        if first > 0:
            consumer.close()
            raise UserError(
                f"topic {self._topic} begins at offset {first}: its first debits are gone, so what "
                "users have spent is not known; restore it, or set list_budget to 0"
            )
        consumer.assign([place])
        return consumer

    def _take(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            self._check(error)
            return
        found = self.budgets.apply(_bytes(message.key()), _bytes(message.value()))
        if found is not None and found[0].writer in self._waiting:
            self._reading_loop.call_soon_threadsafe(self._resolve, *found)

    def _resolve(self, debit: ListDebit, verdict: Verdict) -> None:
        future = self._waiting.get(debit.writer)
        if future is not None and not future.done():
            future.set_result(verdict)

    def _check(self, error: KafkaError) -> None:
        """Raise for an error that is not passing."""
        if error.code() in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET):
            raise UserError(
                f"topic {self._topic}: debits that were read are gone ({error.str()}), so what "
                "users have spent is not known; restore it, or set list_budget to 0"
            )
        if not passes(error):
            raise UserError(
                f"topic {self._topic} cannot be read ({error.str()}); check that the topic exists "
                "and grant READ on it"
            )


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value

"""Writes records that the broker must acknowledge, and reports those that it refuses.

    send -> librdkafka's queue -> broker -> delivery report -> on_acknowledged(offset) | on_refused

A refused record is never dropped silently: `on_refused` receives the `UserError`, and by default
raises it from the call that serves delivery reports (`poll`, `wait`, `flush`, `send_patiently`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.kafka.passing import unwritten

STALL_SECONDS = 60.0
_POLL_SECONDS = 0.1

OnRefused = Callable[[UserError], None]
OnAcknowledged = Callable[[int], None]


def raise_refusal(error: UserError) -> None:
    """Raise the error from the call that serves delivery reports."""
    raise error


class AcknowledgedWriter:
    """Writes to one topic; `record` names the records in error messages, such as "a rejection".

    Any thread may send and poll. Delivery reports are served by the thread that polls, so
    `on_acknowledged` and `on_refused` run there.
    """

    def __init__(
        self,
        producer: Producer,
        topic: str,
        on_refused: OnRefused = raise_refusal,
        record: str = "a record",
    ) -> None:
        self.topic = topic
        self._producer = producer
        self._on_refused = on_refused
        self._record = record
        self._lock = threading.Lock()
        self._acknowledged = 0
        self._unacknowledged = 0
        self._progressed = time.monotonic()

    @classmethod
    def connect(
        cls, connection: Connection, topic: str, record: str = "a record", **properties: Any
    ) -> AcknowledgedWriter:
        """Return a writer with its own producer; `properties` as in `linger_ms=5`."""
        return cls(clients.producer(connection, **properties), topic, record=record)

    @property
    def acknowledged(self) -> int:
        """Number of records that the broker has acknowledged."""
        return self._acknowledged

    @property
    def unacknowledged_seconds(self) -> float:
        """Seconds since the last delivery report while records are unacknowledged, else 0."""
        with self._lock:
            return time.monotonic() - self._progressed if self._unacknowledged > 0 else 0.0

    def send(self, *, on_acknowledged: OnAcknowledged | None = None, **record: Any) -> None:
        """Queue one record, with the keywords of `produce`; raises BufferError while librdkafka's
        queue is full.

        `on_acknowledged` receives the offset, negative if the client does not know it: the broker
        acknowledges a duplicate retry without an offset.
        """

        def delivered(error: KafkaError | None, message: Message) -> None:
            with self._lock:
                self._unacknowledged -= 1
                self._progressed = time.monotonic()
                self._acknowledged += error is None
            if error is not None:
                self._on_refused(unwritten(error, self.topic, self._record))
            elif on_acknowledged is not None:
                offset = message.offset()
                on_acknowledged(-1 if offset is None else offset)

        clients.send(self._producer, self.topic, on_delivery=delivered, **record)
        with self._lock:
            if self._unacknowledged == 0:
                self._progressed = time.monotonic()
            self._unacknowledged += 1

    def send_patiently(self, **record: Any) -> None:
        """Queue one record; waits while the queue is full, and raises `UserError` if no delivery
        report arrives for `STALL_SECONDS`."""
        while True:
            try:
                self.send(**record)
            except BufferError:
                self.poll(_POLL_SECONDS)
                self.check_progress()
            else:
                break
        self.poll()

    def poll(self, seconds: float = 0.0) -> None:
        """Serve delivery reports for up to `seconds`."""
        self._producer.poll(seconds)

    def wait(self) -> None:
        """Return when no record waits for its delivery report; raises `UserError` if none arrives
        for `STALL_SECONDS`."""
        while self._unacknowledged > 0:
            self.poll(_POLL_SECONDS)
            self.check_progress()

    def flush(self, seconds: float) -> int:
        """Wait up to `seconds` for delivery reports; return how many are still missing."""
        return self._producer.flush(seconds)

    def check_progress(self) -> None:
        """Raise `UserError` if records wait and no report has arrived for `STALL_SECONDS`."""
        if self.unacknowledged_seconds > STALL_SECONDS:
            raise UserError(
                f"{self.topic}: {self._record} could not be written: the broker acknowledged "
                f"nothing for {STALL_SECONDS:.0f} s; try again"
            )

"""Publishing rejected records: position, reason and size, never the payload.

The record key is topic/partition/offset and the topic is compacted, so a replay from the beginning
overwrites the same records. A rejection is never dropped: with a full local queue the caller waits,
and a refused write ends the process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Producer

from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.acknowledged_writer import AcknowledgedWriter
from stream_app.kafka.clients import Connection
from stream_app.wire import Rejection, encode_message

_ROOM_SECONDS = 5.0


def patient_producer(connection: Connection, **more: Any) -> Producer:
    """Return a producer that retries without limit while the broker is unreachable.

    For a deleted topic it retries for five seconds instead of thirty; then the refused write ends
    the process.
    """
    return clients.producer(
        connection,
        message_timeout_ms=0,
        topic_metadata_propagation_max_ms=5000,
        **more,
    )


class RejectionWriter:
    """Writes rejections through one idempotent producer."""

    def __init__(
        self, producer: Producer, topic: str, fail: Callable[[BaseException], None]
    ) -> None:
        self._writer = AcknowledgedWriter(producer, topic, fail, "a rejection")
        self._topic = topic
        self._fail = fail
        self.queued_count = 0

    def __call__(self, rejection: Rejection) -> None:
        """Queue one rejection; a full local queue blocks the event loop, for 5 s at most."""
        deadline = time.monotonic() + _ROOM_SECONDS
        while True:
            try:
                self._writer.send(key=rejection.key, value=encode_message(rejection))
            except BufferError:
                if time.monotonic() > deadline:
                    waiting = self.queued_count - self._writer.acknowledged
                    raise UserError(
                        f"{self._topic}: {waiting:,} rejections wait to be written and the broker "
                        f"accepted none for {_ROOM_SECONDS:.0f} s"
                    ) from None
                self._writer.poll(0.05)
            else:
                break
        self.queued_count += 1
        self._writer.poll(0)

    def wait(self, count: int, may_go_on: Callable[[], bool]) -> None:
        """Return when the first `count` rejections are acknowledged, or `may_go_on` is false.

        All rejections go to one partition and are acknowledged in order; a refused write ends the
        process. May be called from another thread.
        """
        while self._writer.acknowledged < count and may_go_on():
            self._writer.poll(0.02)

    def serve(self) -> None:
        """Process delivery reports; call it about once a second."""
        self._writer.poll(0)

    def close(self, seconds: float = 2.0) -> None:
        """Wait until every queued rejection is acknowledged; the process fails after `seconds`."""
        if self._writer.flush(seconds):
            self._fail(
                UserError(f"{self._topic}: not all rejections were written within {seconds} s")
            )

"""A rejection is never dropped: a full queue waits, a refused write ends the process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError

from stream_app.agents.rejections import RejectionWriter
from stream_app.errors import UserError
from stream_app.wire import Reason, Rejection, decode_message

ONE = Rejection("ratings", 2, 7, Reason.MALFORMED, 40)


class FakeProducer:
    """A local queue of `room` messages, which `poll` delivers with `error`."""

    def __init__(self, room: int = 10, error: KafkaError | None = None) -> None:
        self.room = room
        self.error = error
        self.queue: list[Callable[[KafkaError | None, Any], None]] = []
        self.written: list[tuple[bytes, bytes]] = []
        self.polls = 0

    def produce(self, _: str, *, key: bytes, value: bytes, on_delivery: Any) -> None:
        if len(self.queue) >= self.room:
            raise BufferError
        self.queue.append(on_delivery)
        self.written.append((key, value))

    def poll(self, timeout: float) -> int:
        self.polls += 1
        if timeout > 0:
            return self.flush(timeout)
        return 0

    def flush(self, _: float) -> int:
        while self.queue:
            self.queue.pop()(self.error, None)
        return 0


def test_a_rejection_has_position_and_reason_under_the_key_of_its_position() -> None:
    producer, failed = FakeProducer(), list[BaseException]()
    reject = RejectionWriter(producer, "rejected", failed.append)  # type: ignore[arg-type]
    reject(ONE)
    reject.close()
    ((key, value),) = producer.written
    assert key == b"ratings/2/7"
    assert decode_message(Rejection, value) == ONE
    assert failed == []


def test_a_full_queue_is_waited_for() -> None:
    producer, failed = FakeProducer(room=1), list[BaseException]()
    reject = RejectionWriter(producer, "rejected", failed.append)  # type: ignore[arg-type]
    for _ in range(5):
        reject(ONE)
    reject.close()
    assert len(producer.written) == 5


def test_a_refused_write_ends_the_process_with_a_sentence() -> None:
    error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    failed: list[BaseException] = []
    reject = RejectionWriter(FakeProducer(error=error), "rejected", failed.append)  # type: ignore[arg-type]
    reject(ONE)
    reject.close()
    assert isinstance(failed[0], UserError)
    assert "rejected" in str(failed[0])


def test_an_unwritten_rejection_at_the_end_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    producer, failed = FakeProducer(), list[BaseException]()
    monkeypatch.setattr(producer, "flush", lambda _: 3)
    RejectionWriter(producer, "rejected", failed.append).close()  # type: ignore[arg-type]
    assert "not all" in str(failed[0])

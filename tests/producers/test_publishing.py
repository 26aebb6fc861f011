"""Sending: never dropped, every fate counted, and one owner."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from producers.publishing import Place, Publisher
from stream_app.errors import Refusal


@dataclass
class Landed:
    """What a delivery report tells."""

    place: int

    def partition(self) -> int:
        return 2

    def offset(self) -> int:
        return self.place


@dataclass
class Queue:
    """A broker behind a queue of `room` records that answers `fate` for each when it is polled."""

    room: int = 10
    fate: Callable[[int], KafkaError | None] = lambda _: None
    answers: bool = True
    waiting: list[tuple[bytes, bytes, Any]] = field(default_factory=list)
    landed: list[tuple[bytes, bytes]] = field(default_factory=list)
    refused: int = 0

    def produce(self, topic: str, *, key: bytes, value: bytes, on_delivery: Any) -> None:
        if len(self.waiting) >= self.room:
            self.refused += 1
            raise BufferError("queue full")
        self.waiting.append((key, value, on_delivery))

    def poll(self, timeout: float) -> int:
        if self.answers and self.waiting:
            key, value, tell = self.waiting.pop(0)
            error = self.fate(len(self.landed))
            self.landed.append((key, value))
            tell(error, Landed(len(self.landed) - 1))
        return 0

    def flush(self, timeout: float) -> int:
        while self.answers and self.waiting:
            self.poll(0)
        return len(self.waiting)


def test_a_full_queue_is_waited_for_and_nothing_is_dropped() -> None:
    queue = Queue(room=3)
    with Publisher(queue, "t") as line:
        for i in range(1000):
            line.send(b"k", str(i).encode())
    assert [value for _, value in queue.landed] == [str(i).encode() for i in range(1000)]
    assert queue.refused > 0
    assert (line.sent, line.accepted, line.failed, line.first_error) == (1000, 1000, 0, "")
    assert line.last == Place(2, 999)


def test_a_failed_delivery_is_counted_with_its_first_reason() -> None:
    def fate(number: int) -> KafkaError | None:
        return KafkaError(KafkaError._MSG_TIMED_OUT) if number in (3, 5) else None

    with Publisher(Queue(fate=fate), "t") as line:
        for _ in range(8):
            line.send(b"k", b"v")
    assert (line.accepted, line.failed) == (6, 2)
    assert "timed out" in line.first_error


def test_what_has_no_answer_at_the_deadline_counts_as_failed_once() -> None:
    queue = Queue(answers=False)
    line = Publisher(queue, "t")
    for _ in range(4):
        line.send(b"k", b"v")
    line.close(0.5)
    assert (line.accepted, line.failed) == (0, 4)
    assert "within 0.5 seconds" in line.first_error
    queue.answers = True
    queue.flush(1)  # answers that come too late
    line.close()
    assert (line.accepted, line.failed) == (0, 4)


def test_a_broker_that_is_gone_ends_the_waiting() -> None:
    ticks = iter(range(1000))
    line = Publisher(
        Queue(room=1, answers=False), "t", patience_seconds=60, clock=lambda: 10.0 * next(ticks)
    )
    line.send(b"k", b"v")
    with pytest.raises(Refusal, match="nothing for 60 seconds"):
        line.send(b"k", b"v")
    assert line.sent == 1


def test_an_error_of_the_client_is_one_sentence() -> None:
    class Broken(Queue):
        def produce(self, topic: str, *, key: bytes, value: bytes, on_delivery: Any) -> None:
            raise KafkaException(KafkaError(KafkaError._FATAL))

    with pytest.raises(Refusal, match="Kafka takes no more records"):
        Publisher(Broken(), "t").send(b"k", b"v")


def test_a_closed_publisher_says_so() -> None:
    line = Publisher(Queue(), "t")
    line.close()
    with pytest.raises(RuntimeError, match="closed"):
        line.send(b"k", b"v")


def test_a_publisher_belongs_to_one_thread() -> None:
    line, said = Publisher(Queue(), "t"), []

    def elsewhere() -> None:
        for use in (lambda: line.send(b"k", b"v"), line.close):
            try:
                use()
            except RuntimeError as error:
                said.append(str(error))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join(10)
    assert len(said) == 2
    assert "another thread" in said[0]
    line.send(b"k", b"v")


def test_a_publisher_does_not_cross_a_fork() -> None:
    program = """
import os
from producers.publishing import Publisher
line = Publisher(None, "t")
child = os.fork()
if child == 0:
    try:
        line.send(b"k", b"v")
    except RuntimeError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "before a fork" in out.stdout

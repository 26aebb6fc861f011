"""Sending: never dropped, every fate counted, and one owner."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import KafkaError, KafkaException
from hypothesis import given
from hypothesis import settings as trials
from hypothesis import strategies as st

from producers.device import requests as device
from producers.journal import Journal, Message
from producers.publishing import AccountProducers, OutboxRelay, Publisher, RecordPosition
from stream_app.cli.device import publishers
from stream_app.errors import UserError
from stream_app.privacy import registry
from stream_app.settings import Settings
from tests.producers.conftest import TOPIC
from tests.producers.journals import at


@dataclass
class Landed:
    """A delivered record, as a delivery report holds it."""

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
    topics: list[str] = field(default_factory=list)
    waiting: list[tuple[bytes, bytes, Any]] = field(default_factory=list)
    landed: list[tuple[bytes, bytes]] = field(default_factory=list)
    refused: int = 0

    def produce(
        self,
        topic: str,
        *,
        key: bytes,
        value: bytes,
        on_delivery: Any,
        partition: int = -1,
        **_: Any,
    ) -> None:
        if len(self.waiting) >= self.room:
            self.refused += 1
            raise BufferError("queue full")
        self.topics.append(topic)
        self.waiting.append((key, value, on_delivery))

    def poll(self, timeout: float) -> int:
        if self.answers and self.waiting:
            key, value, on_delivery = self.waiting.pop(0)
            error = self.fate(len(self.landed))
            self.landed.append((key, value))
            on_delivery(error, Landed(len(self.landed) - 1))
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
    assert line.last == RecordPosition(2, 999)


def test_a_failed_delivery_is_counted_with_its_first_reason() -> None:
    def fate(number: int) -> KafkaError | None:
        return KafkaError(KafkaError._MSG_TIMED_OUT) if number in (3, 5) else None

    with Publisher(Queue(fate=fate), "t") as line:
        for _ in range(8):
            line.send(b"k", b"v")
    assert (line.accepted, line.failed) == (6, 2)
    assert "timed out" in line.first_error


def test_a_record_without_a_report_at_the_deadline_counts_as_failed_once() -> None:
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
    with pytest.raises(UserError, match="nothing for 60 seconds"):
        line.send(b"k", b"v")
    assert line.sent == 1


def test_an_error_of_the_client_is_one_sentence() -> None:
    class Broken(Queue):
        def produce(
            self, topic: str, *, key: bytes, value: bytes, on_delivery: Any, **_: Any
        ) -> None:
            raise KafkaException(KafkaError(KafkaError._FATAL))

    with pytest.raises(UserError, match="Kafka accepts no more records"):
        Publisher(Broken(), "t").send(b"k", b"v")


def test_a_closed_publisher_says_so() -> None:
    line = Publisher(Queue(), "t")
    line.close()
    with pytest.raises(RuntimeError, match="closed"):
        line.send(b"k", b"v")


def test_a_publisher_belongs_to_one_thread() -> None:
    line, errors = Publisher(Queue(), "t"), []

    def elsewhere() -> None:
        for use in (lambda: line.send(b"k", b"v"), line.close):
            try:
                use()
            except RuntimeError as error:
                errors.append(str(error))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join(10)
    assert len(errors) == 2
    assert "another thread" in errors[0]
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


# --- the messages of a journal --------------------------------------------------------------------


def given_out(journal: Journal, count: int, topic: str = TOPIC, first: int = 0) -> list[Message]:
    line = device.ReportSettings(topic, registry.parse("rr:5:2"))
    return [
        message
        for item in range(first, first + count)
        for message in journal.release(
            device.request(np.array([1], np.uint8), [item], line, device=b"a" * 16, epoch=20_000)
        )
    ]


def test_what_the_broker_has_is_acknowledged_and_only_that(journal: Journal) -> None:
    queue = Queue()
    relay = OutboxRelay(journal, Publisher(queue, TOPIC))
    messages = given_out(journal, 4)
    for message in messages:
        relay.send(message, kept=message is messages[3])
    assert journal.pending() == messages
    queue.poll(0), queue.poll(0)
    assert journal.pending() == messages[2:]
    relay.publisher.close()
    assert journal.pending() == []
    assert queue.landed == [(message.key, message.value) for message in messages]
    assert relay.places == {messages[3].number: RecordPosition(2, 3)}


def test_what_was_left_is_sent_first_the_same_bytes_to_its_own_topic(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with at(path) as journal:
        left = given_out(journal, 3)
        other = given_out(journal, 2, "other.ratings.v1", first=10)
    with at(path) as journal:
        queue = Queue()
        with Publisher(queue, TOPIC) as line:
            relay = OutboxRelay(journal, line)
            assert relay.resend({TOPIC}) == (3, 2)
            (new,) = given_out(journal, 1, first=20)
            relay.send(new)
        assert [value for _, value in queue.landed] == [m.value for m in [*left, new]]
        assert set(queue.topics) == {TOPIC}
        assert journal.pending() == other
    with at(path) as journal:
        queue = Queue()
        with Publisher(queue, TOPIC) as line:
            assert OutboxRelay(journal, line).resend({TOPIC, "other.ratings.v1"}) == (2, 0)
        assert queue.topics == ["other.ratings.v1"] * 2
        assert journal.pending() == []


def test_after_a_record_that_was_not_taken_nothing_more_is_sent_and_all_is_kept(
    journal: Journal,
) -> None:
    """Else a later number of the device would arrive first and the missing one count as passed."""

    def fate(number: int) -> KafkaError | None:
        return KafkaError(KafkaError._MSG_TIMED_OUT) if number == 1 else None

    queue = Queue(room=1, fate=fate)
    relay = OutboxRelay(journal, Publisher(queue, TOPIC))
    messages = given_out(journal, 4)
    for message in messages[:2]:
        relay.send(message)
    queue.poll(0)
    with pytest.raises(UserError, match=r"1 events were not accepted.*timed out.*the same bytes"):
        relay.send(messages[2])
    relay.publisher.close()
    assert journal.pending() == messages[1:]


def test_room_is_made_by_waiting_for_the_broker(tmp_path: Path) -> None:
    with at(tmp_path / "j", outbox_bytes=1100) as journal:
        queue = Queue(room=100)
        relay = OutboxRelay(journal, Publisher(queue, TOPIC, clock=iter(range(10**6)).__next__))
        for message in given_out(journal, 8):
            relay.send(message)
        waiting = journal.waiting_bytes
        relay.make_room()
        assert journal.waiting_bytes <= 550 < waiting
        assert 0 < len(queue.landed) < 8
        for message in given_out(journal, 2, first=10):
            relay.send(message)
        queue.answers = False
        with pytest.raises(UserError, match="nothing for 60 seconds"):
            OutboxRelay(journal, relay.publisher).publisher.wait(lambda: False)


def pool(most: int, made: list[Queue], room: int = 10) -> AccountProducers:
    """Return a pool of queues, each of which is added to `made`."""

    def make() -> Queue:
        made.append(Queue(room=room))
        return made[-1]

    return AccountProducers(make, most)


@trials(deadline=None)
@given(
    keys=st.lists(st.sampled_from([b"a", b"b", b"c", b"d", b"e"]), max_size=60),
    most=st.integers(1, 4),
    room=st.integers(1, 3),
)
def test_every_record_lands_once_in_order_through_a_client_of_its_account(
    keys: list[bytes], most: int, room: int
) -> None:
    made: list[Queue] = []
    clients = pool(most, made, room)
    with Publisher(clients, "t") as line:
        for number, key in enumerate(keys):
            line.send(key, b"%d" % number)
            assert len(clients) <= most
    assert (line.accepted, line.failed) == (len(keys), 0)
    for client in made:
        assert len({key for key, _ in client.landed}) == 1, "accounts share no client"
    for account in set(keys):
        sent = [int(value) for client in made for key, value in client.landed if key == account]
        assert sent == [number for number, key in enumerate(keys) if key == account]


def test_an_account_keeps_its_client_while_there_is_room() -> None:
    made: list[Queue] = []
    with Publisher(pool(2, made), "t") as line:
        for key in (b"a", b"b", b"a", b"b", b"a"):
            line.send(key, b"v")
    assert [len(client.landed) for client in made] == [3, 2]


def test_a_client_with_open_records_is_not_closed() -> None:
    made: list[Queue] = []
    clients = pool(1, made)
    clients.produce("t", key=b"a", value=b"1", on_delivery=lambda *_: None)
    made[0].answers = False
    with pytest.raises(BufferError, match="not confirmed"):
        clients.produce("t", key=b"b", value=b"2", on_delivery=lambda *_: None)
    made[0].answers = True
    clients.produce("t", key=b"b", value=b"2", on_delivery=lambda *_: None)
    assert made[0].landed == [(b"a", b"1")]


def test_a_broker_that_confirms_nothing_is_one_sentence() -> None:
    made: list[Queue] = []
    times = iter(range(100))
    line = Publisher(pool(1, made), "t", patience_seconds=5, clock=lambda: float(next(times)))
    line.send(b"a", b"1")
    made[0].answers = False
    with pytest.raises(UserError, match="confirmed nothing for 5 seconds"):
        line.send(b"b", b"2")


def test_at_least_one_client() -> None:
    with pytest.raises(ValueError, match="most 0: at least 1"):
        pool(0, [])


def test_the_option_decides_whether_accounts_share_a_producer() -> None:
    """No broker is asked: clients connect when they send."""
    settings = Settings(bootstrap_servers="127.0.0.1:1")
    shared = publishers._publisher(settings, "t").producer
    assert not isinstance(shared, AccountProducers)
    own = publishers._publisher(settings, "t", per_account=True).producer
    assert isinstance(own, AccountProducers)
    assert own.make() is not own.make()

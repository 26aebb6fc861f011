"""A log that lost its end: refused in one sentence, and taken up by the command that it names.

The end of a partition is cut off on the broker's disk while the broker is down, as a power cut
does. Whatever was read before, workers and commands refuse the log until it is truncated to a cut
that it still holds; then events that are sent again are learned again.
"""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from stream_app.cli.demo.demo_processes import WorkerProcess
from stream_app.deployment import Deployment
from stream_app.errors import Unanswered, UserError
from stream_app.kafka import clients, topic_follower
from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_admin import create
from stream_app.replay.follower import Follower
from stream_app.wire import Cut, Topics, encode_message
from tests.conftest import Kafka
from tests.faults.brokers import Node
from tests.faults.conftest import Command, Proof, apply_parts, remove, sentence, stop
from tests.faults.lost_ends import cut_off
from tests.faults.own_broker import broker, kafka, own
from tests.fixtures.cut_log import cuts
from tests.fixtures.replicas import SMALL
from tests.fixtures.streams import Published, events, publish
from tests.fixtures.waiting import PATIENCE_SECONDS, until
from tests.kafka.conftest import Send, Start, ends_of

__all__ = ["broker", "kafka", "own"]  # fixtures
pytestmark = [pytest.mark.kafka, pytest.mark.thorough]


@pytest.fixture
def records(rng: np.random.Generator) -> list[Published]:
    return [publish(event) for event in events(rng, 300)]


def named_cut(text: str) -> int:
    """Return N of the command that a sentence names."""
    found = re.search(r"murmurec state truncate --to-cut (\d+)", text)
    assert found, text
    return int(found[1])


def take_up(command: Command, text: str) -> str:
    """Run the command that a sentence names; it asks first, and prints what is lost."""
    to_cut = str(named_cut(text))
    code, output = command("state", "truncate", "--to-cut", to_cut)
    assert code == 1
    assert "--yes" in output
    code, output = command("state", "truncate", "--to-cut", to_cut, "--yes")
    assert code == 0, output
    assert "superseded" in output
    return output


def end_of_two(broker: Node, names: Topics) -> int:
    """Return the end offset of partition 2."""
    consumer = clients.consumer(Connection(broker.bootstrap))
    try:
        return clients.offsets(consumer, TopicPartition(names.ratings, 2))[1]
    finally:
        consumer.close()


def lose(broker: Node, topic: str, partition: int, end: int) -> None:
    broker.kill()
    cut_off(broker, topic, partition, end)
    broker.start()


@pytest.fixture
def resend(kafka: Kafka, names: Topics) -> Send:
    """Give a function that sends with a producer of its own: one from before the loss would end,
    since the broker has lost its sequence numbers, too."""

    def sent(records: Sequence[Published]) -> None:
        producer = clients.producer(kafka.connection)
        for record in records:
            producer.produce(
                names.ratings, key=record.key, value=record.value, partition=record.partition
            )
        assert producer.flush(PATIENCE_SECONDS) == 0

    return sent


def only(records: list[Published], partition: int) -> list[Published]:
    return [record for record in records if record.partition == partition]


def test_a_lost_end_is_refused_by_all_and_taken_up_with_what_is_sent_again(
    start: Start,
    send: Send,
    resend: Send,
    proof: Proof,
    command: Command,
    records: list[Published],
    broker: Node,
    names: Topics,
) -> None:
    """Cold, not filled again."""
    worker = start()
    apply_parts(worker, send, records, 150, 300)
    stop(worker)
    kept = len(only(records[:150], 1))
    lose(broker, names.ratings, 1, kept + 1)
    refused = sentence(start(ready=False))
    assert "ends at offset" in refused
    assert "lost its end" in refused
    for arguments in (("digest",), ("verify",), ("rebuild",)):
        code, output = command("state", *arguments)
        assert code == 1, output
        assert named_cut(output) == named_cut(refused), arguments
    assert named_cut(sentence(start("--rebuild", ready=False))) == named_cut(refused)
    output = take_up(command, refused)
    assert "of them are gone" in output
    # The devices send again what was lost: their marks went back with the state.
    (lost_from,) = {int(n) for n in re.findall(r"partition 1: .* now ends at (\d+)", output)}
    again = only(records, 1)[lost_from:]
    assert again
    resend(again)
    worker = start()
    state = worker.wait_for(ends_of(records))
    assert state["counts"]["applied"] == len(records)
    assert state["counts"]["duplicate"] == 0
    proof(state)
    stop(worker)
    code, output = command("state", "rebuild")
    assert code == 0, output
    worker = start()
    assert worker.state()["model_digest"] == state["model_digest"]


@pytest.mark.nightly
def test_an_end_that_was_filled_again_is_refused_with_and_without_a_checkpoint(
    start: Start,
    send: Send,
    resend: Send,
    proof: Proof,
    command: Command,
    records: list[Published],
    broker: Node,
    admin: AdminClient,
    names: Topics,
) -> None:
    worker = start()
    apply_parts(worker, send, records, 100, 200)
    stop(worker)
    lose(broker, names.ratings, 2, len(only(records[:200], 2)) - 1)
    lost = len(only(records[:200], 2)) - end_of_two(broker, names)
    other = only(records[200:], 2)
    assert lost > 0
    resend(other * (1 + lost // len(other)))
    refused = sentence(start(ready=False))
    assert "another record" in refused
    remove(admin, names.state)
    create(admin, names.table())
    refused = sentence(start(ready=False))
    assert "another record" in refused
    code, output = command("state", "digest")
    assert code == 1
    assert named_cut(output) == named_cut(refused)
    assert "filled again" in take_up(command, refused)
    worker = start()
    state = worker.state()
    assert 0 < state["counts"]["applied"] < 200 + len(other)
    proof(state)


@pytest.mark.nightly
def test_warm_workers_and_the_next_owner_of_the_clock_refuse_a_lost_end(
    start: Start,
    send: Send,
    resend: Send,
    proof: Proof,
    command: Command,
    records: list[Published],
    broker: Node,
    names: Topics,
) -> None:
    """One worker has read the lost records; the other was frozen before and gets the clock, and
    meets a cut whose records are others now."""
    owner = start()
    apply_parts(owner, send, records, 100)
    late = start()
    late.wait_for(ends_of(records[:100]))
    os.kill(late.process.pid, signal.SIGSTOP)
    send(records[100:200])
    owner.wait_for(ends_of(records[:200]))
    lose(broker, names.ratings, 3, len(only(records[:100], 3)) + 1)
    resend(records[200:] + records[100:200])  # more of partition 3 than it lost
    refused = sentence(owner)
    assert "lost its end" in refused
    os.kill(late.process.pid, signal.SIGCONT)
    assert "another record" in sentence(late)
    take_up(command, refused)
    worker = start()
    proof(worker.state())


@pytest.mark.nightly
def test_a_warm_worker_refuses_an_end_that_was_filled_again_while_it_slept(
    start: Start,
    send: Send,
    resend: Send,
    proof: Proof,
    command: Command,
    records: list[Published],
    broker: Node,
    names: Topics,
) -> None:
    """The log is longer than before when the worker asks again: only the record that it has read
    shows the loss."""
    owner = start()
    apply_parts(owner, send, records, 200)
    os.kill(owner.process.pid, signal.SIGSTOP)
    lose(broker, names.ratings, 3, len(only(records[:200], 3)) - 3)
    resend(records[200:] + records)
    os.kill(owner.process.pid, signal.SIGCONT)
    refused = sentence(owner)
    assert "lost its end" in refused
    take_up(command, refused)
    worker = start()
    proof(worker.state())


class FreezesItsBroker:
    """A consumer whose broker is frozen as soon as it has handed over a record from some offset on
    of its partition, once."""

    def __init__(self, consumer: Consumer, broker: Node, first: Sequence[int]) -> None:
        self._consumer, self._broker, self._first = consumer, broker, first

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)

    def consume(self, count: int, seconds: float) -> list[Message]:
        messages: list[Message] = self._consumer.consume(count, seconds)
        places = [(m.partition() or 0, m.offset() or 0) for m in messages if m.error() is None]
        if self._first and any(offset >= self._first[p] for p, offset in places):
            self._first = ()
            self._broker.freeze()
        return messages


def test_a_new_leader_that_does_not_answer_is_waited_for(
    send: Send, resend: Send, records: list[Published], broker: Node, kafka: Kafka, names: Topics
) -> None:
    """It is asked for the record before its own, and nothing is taken until it answers."""
    first, all_of_them = ends_of(records[:50]), ends_of(records[:100])
    with closing(Follower(Deployment(kafka.connection, names, SMALL))) as follower:

        def received() -> list[int]:
            assert not [*follower.poll()], "there is no cut"
            return follower.rounds.received

        send(records[:50])
        until(lambda: received() == first, "the records of the first leader")
        broker.kill()
        broker.start()
        resend(records[50:100])
        follower._consumer = FreezesItsBroker(follower._consumer, broker, first)  # type: ignore[assignment]
        until(lambda: received() and follower.unanswered, "the broker is asked")
        assert re.search(r"has a new leader, which is asked for .* offset \d+", follower.unanswered)
        before = received()[:]
        assert sum(before) < 100
        assert received() == before
        broker.thaw()
        until(lambda: received() == all_of_them, "the records of the new leader")
        assert not follower.unanswered


class RestartsItsBroker:
    """A consumer whose broker dies with its first question for offsets, and lives again before the
    second one."""

    def __init__(self, consumer: Consumer, broker: Node) -> None:
        self._consumer, self._broker = consumer, broker
        self.questions = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)

    def get_watermark_offsets(self, *arguments: Any, **named: Any) -> tuple[int, int] | None:
        self.questions += 1
        if self.questions == 1:
            self._broker.freeze()  # the question arrives, and the connection ends before an answer
            threading.Timer(0.5, self._broker.kill).start()
        else:
            self._broker.start()
        return self._consumer.get_watermark_offsets(*arguments, **named)


@pytest.mark.nightly
def test_a_broker_that_restarts_while_it_is_asked_for_the_end_is_waited_for(
    send: Send, records: list[Published], broker: Node, kafka: Kafka, names: Topics
) -> None:
    """What was lost is refused, and not that the broker was away."""
    ends = ends_of(records[:100])
    with closing(Follower(Deployment(kafka.connection, names, SMALL))) as follower:
        asking = RestartsItsBroker(follower._consumer, broker)

        def received() -> list[int]:
            assert not [*follower.poll()], "there is no cut"
            return follower.rounds.received

        send(records[:100])
        until(lambda: received() == ends, "the records")
        lose(broker, names.ratings, 3, ends[3] - 3)
        follower.bounds._consumer = asking  # type: ignore[assignment]
        refusals: list[str] = []

        def refused() -> bool:
            try:
                received()
            except Unanswered:
                return False
            except UserError as reason:
                refusals.append(str(reason))
            return bool(refusals)

        until(refused, "the log is refused")
        assert asking.questions > 1
        assert "lost its end" in refusals[0]
        assert "partition 3 does not hold the record before offset" in refusals[0]


@pytest.mark.nightly
def test_a_cut_log_that_lost_its_end_is_behind_the_checkpoint(
    start: Start,
    send: Send,
    proof: Proof,
    command: Command,
    records: list[Published],
    broker: Node,
    kafka: Kafka,
    names: Topics,
) -> None:
    worker = start()
    send(records[:150])
    worker.wait_for(ends_of(records[:150]))
    send(records[150:])
    before = worker.wait_for(ends_of(records))
    stop(worker)
    end = next(
        message.offset() or 0
        for message in topic_follower.records(kafka.connection, names.cuts)
        if b'"number":2' in (message.value() or b"")
    )
    lose(broker, names.cuts, 0, end)
    kept = max((cut.number for cut in cuts(kafka, names)), default=0)
    refused = sentence(start(ready=False))
    assert names.cuts in refused
    assert named_cut(refused) == kept
    code, output = command("state", "rebuild")
    assert code == 1
    assert named_cut(output) == kept
    printed = " ".join(take_up(command, refused).split())
    assert re.search(rf"superseded checkpoints: of cut [0-9, ]*\b{before['cut']}\b", printed)
    worker = start()
    state = worker.wait_for(ends_of(records))
    assert state["counts"]["applied"] == len(records)
    assert state["cut"] > before["cut"]
    proof(state)


def readiness(worker: WorkerProcess) -> dict[str, object]:
    worker.check()
    try:
        found: dict[str, object] = json.loads(worker.get("/readyz", 5))
    except OSError:
        return {}
    return found


@pytest.mark.nightly
def test_a_cut_beyond_the_end_is_named_and_workers_begin_again_after_the_truncation(
    start: Start,
    send: Send,
    proof: Proof,
    command: Command,
    records: list[Published],
    kafka: Kafka,
    names: Topics,
) -> None:
    """Two workers: both wait, say for what, and both go on by themselves with equal states."""
    workers = [start(), start()]
    send(records[:150])
    for worker in workers:
        worker.wait_for(ends_of(records[:150]))
    last = cuts(kafka, names)[-1]
    producer = clients.producer(kafka.connection)
    beyond = tuple(end + 1000 for end in last.end_offsets)
    producer.produce(names.cuts, value=encode_message(Cut(last.number + 1, beyond, 20_000)))
    assert producer.flush(PATIENCE_SECONDS) == 0
    for worker in workers:
        until(lambda w=worker: "--to-cut" in str(readiness(w).get("waiting_for")), "it says why")
        waiting = str(readiness(worker)["waiting_for"])
        assert f"cut {last.number + 1} names offset {beyond[0]} of partition 0" in waiting
        assert named_cut(waiting) == last.number
    code, output = command("state", "digest")
    assert code == 1
    assert named_cut(output) == last.number
    send(records[150:])
    take_up(command, waiting)
    states = [worker.wait_for(ends_of(records)) for worker in workers]
    assert states[0]["cut"] > last.number + 1000
    for state in states:
        assert state["counts"]["applied"] == len(records)
    for worker in workers:
        worker.wait_until_ready()
    proof(workers[0].state())
    code, output = command("state", "verify", "--worker", workers[1].url)
    assert code == 0, output


def test_a_truncation_that_would_lose_nothing_or_keep_lost_records_is_refused(
    start: Start,
    send: Send,
    command: Command,
    records: list[Published],
    kafka: Kafka,
    names: Topics,
) -> None:
    worker = start()
    send(records[:50])
    worker.wait_for(ends_of(records[:50]))
    stop(worker)
    last = cuts(kafka, names)[-1].number
    for to_cut, words in ((last, "nothing to supersede"), (last + 7, "no such cut in force")):
        code, output = command("state", "truncate", "--to-cut", str(to_cut), "--yes")
        assert code == 1
        assert words in output
    entries = [m.value() for m in topic_follower.records(kafka.connection, names.cuts)]
    assert not any(b"truncate" in (value or b"") for value in entries)
    code, output = command("state", "truncate", "--to-cut", "0", "--yes")
    assert code == 0, output
    worker = start()
    state = worker.wait_for(ends_of(records[:50]))
    assert state["cut"] > last
    assert state["counts"]["applied"] == 50

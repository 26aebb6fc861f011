"""Workers of several shards on a real broker: each shard has one process, wherever it moves, and a
deployment that cannot be is refused in one sentence."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from consumers.recommendations import Recommendations
from stream_app.agents.shards.shard_worker import Children, Command, ShardGroup
from stream_app.broker import local as broker
from stream_app.kafka import clients
from stream_app.kafka.topic_admin import create
from stream_app.settings import load
from stream_app.wire import Topics
from stream_app.wire.ids import partition_of
from tests.conftest import Kafka
from tests.fixtures import forks
from tests.fixtures.shard_processes import process, running
from tests.fixtures.waiting import PATIENCE_SECONDS, until
from tests.kafka.conftest import Start

pytestmark = pytest.mark.kafka
SHARDS = 4


@pytest.fixture
def exchange(kafka: Kafka, topics: str) -> str:
    """Give the prefix of a deployment whose topic between shards is that of four."""
    names = Topics(topics, SHARDS)
    create(clients.admin(kafka.connection), [t for t in names.table() if t.name == names.exchange])
    return topics


@dataclass
class Member:
    """A worker in a thread: the shards that it holds, and its exit code."""

    children: Children
    group: ShardGroup | None = None
    held: list[list[int]] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)
    codes: list[int] = field(default_factory=list)

    def shards(self) -> list[int]:
        """Return the shards that it holds now."""
        return self.held[-1] if self.held else []

    def lost(self) -> set[int]:
        """Return the shards of which the group has to say who holds them."""
        return self.group._lost_shards if self.group else set()


@contextmanager
def member(kafka: Kafka, prefix: str, command: Command) -> Iterator[Member]:
    """Run a worker for the length of the block."""
    made = Member(Children(command))
    group = made.group = ShardGroup(
        kafka.connection,
        f"{prefix}-shards",
        Topics(prefix).exchange,
        made.children,
        made.held.append,
    )
    thread = threading.Thread(target=lambda: made.codes.append(group.run(made.ended.is_set)))
    thread.start()
    try:
        yield made
    finally:
        made.ended.set()
        thread.join(PATIENCE_SECONDS)


def test_each_shard_has_one_process_while_workers_come_and_go(
    kafka: Kafka, exchange: str, tmp_path: Path
) -> None:
    def command(shard: int) -> list[str]:
        return process(tmp_path, shard)

    with member(kafka, exchange, command) as first:
        until(lambda: running(tmp_path) == {0, 1, 2, 3}, "the first worker holds all")
        with member(kafka, exchange, command) as second:
            until(lambda: len(first.shards()) == len(second.shards()) == 2, "each holds two")
            assert sorted(first.shards() + second.shards()) == [0, 1, 2, 3]
            until(lambda: running(tmp_path) == {0, 1, 2, 3}, "all run")
            kept = first.shards()
            os.kill(first.children._running[kept[0]].pid, signal.SIGKILL)
            until(lambda: running(tmp_path) == {0, 1, 2, 3}, "it was started again")
            assert first.shards() == kept
        assert second.codes == [0]
        until(lambda: running(tmp_path) == {0, 1, 2, 3}, "the first worker has taken over")
        assert first.shards() == [0, 1, 2, 3]
    assert (first.codes, running(tmp_path)) == ([0], set())
    assert not (tmp_path / "clash").exists()


@pytest.mark.nightly
def test_a_broker_that_is_away_for_longer_than_a_session_ends_no_process(tmp_path: Path) -> None:
    def command(shard: int) -> list[str]:
        return process(tmp_path, shard)

    with broker.run(None, load().cache_dir) as own:
        kafka, names = Kafka(own.bootstrap), Topics("p", SHARDS)
        table = [topic for topic in names.table() if topic.name == names.exchange]
        create(clients.admin(kafka.connection), table)
        with member(kafka, "p", command) as first, member(kafka, "p", command) as second:
            until(lambda: len(first.shards()) == len(second.shards()) == 2, "each holds two")
            before = [process.pid for process in first.children._running.values()]
            changes = len(first.held)
            assert own.pid is not None
            os.kill(own.pid, signal.SIGSTOP)
            try:
                until(lambda: first.lost() and second.lost(), "both have lost their shards")
                assert [process.pid for process in first.children._running.values()] == before
            finally:
                os.kill(own.pid, signal.SIGCONT)
            until(lambda: len(first.held) > changes, "the group has answered")
            until(lambda: sorted(first.shards() + second.shards()) == [0, 1, 2, 3], "all are held")
            until(lambda: running(tmp_path) == {0, 1, 2, 3}, "all run")


def test_a_worker_ends_with_the_exit_code_of_a_process_that_is_refused(
    kafka: Kafka, exchange: str, tmp_path: Path
) -> None:
    def command(shard: int) -> list[str]:
        wrong = [sys.executable, "-c", "raise SystemExit(2)"]
        return wrong if shard == 3 else process(tmp_path, shard)

    with member(kafka, exchange, command) as worker:
        until(lambda: worker.codes == [2], "it has ended")
    assert running(tmp_path) == set()


def worker(kafka: Kafka, prefix: str, *words: str) -> tuple[int, str]:
    """Return the exit code of a worker that is refused, and its last line."""
    done = forks.run(["worker", "--bootstrap", kafka.bootstrap, "--prefix", prefix, *words])
    return done.returncode, done.stderr.splitlines()[-1]


def test_a_deployment_of_other_shards_is_refused_in_one_sentence(
    kafka: Kafka, topics: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = Topics(topics, SHARDS)
    monkeypatch.setenv("MURMUREC_SHARDS", "2")
    for words in ([], ["--shard", "0"]):
        code, said = worker(kafka, topics, *words)
        assert (code, said) == (
            1,
            f"murmurec: topic {names.exchange} does not exist: create it with murmurec topics "
            "apply under the setting shards above 1",
        )
    create(clients.admin(kafka.connection), [t for t in names.table() if t.name == names.exchange])
    for shards, words in (("2", []), ("2", ["--shard", "1"]), ("1", [])):
        monkeypatch.setenv("MURMUREC_SHARDS", shards)
        code, said = worker(kafka, topics, *words)
        assert code == 1
        assert "has 4 partitions, one for each shard, and" in said
        assert said.endswith(f"shards is {shards}: set shards to 4 on every worker")
    monkeypatch.setenv("MURMUREC_SHARDS", "4")
    code, said = worker(kafka, topics, "--shard", "4")
    assert (code, said) == (1, "murmurec: shard 4: of 4 shards it is 0 to shards - 1")
    monkeypatch.setenv("MURMUREC_SHARDS", "3")
    for words in ([], ["--shard", "0"]):
        code, said = worker(kafka, topics, *words)
        assert code == 1
        assert said.startswith("murmurec: shards 3: it must divide partitions, 4")


def test_queries_that_shards_cannot_divide_are_refused(
    kafka: Kafka, exchange: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = f"{exchange}-odd"
    table = Topics(odd, SHARDS).table(query_partitions=6)
    create(clients.admin(kafka.connection), table)
    monkeypatch.setenv("MURMUREC_SHARDS", str(SHARDS))
    code, said = worker(kafka, odd)
    assert code == 1
    assert "queries.v1 has 6 partitions, which 4 shards cannot divide: delete it and" in said


@pytest.mark.thorough
def test_a_worker_of_two_shards_answers_for_both_and_ends_with_its_processes(
    kafka: Kafka, topics: str, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = f"{topics}-two"
    monkeypatch.setenv("MURMUREC_SHARDS", "2")
    create(clients.admin(kafka.connection), Topics(prefix, 2).table())
    held = start("--prefix", prefix)
    held.wait_until_ready()  # on a fresh machine its processes compile kernels
    users = [f"{number:032x}" for number in range(8)]
    assert {partition_of(user.encode(), 2) for user in users} == {0, 1}
    with Recommendations(kafka.bootstrap, prefix) as ask:
        for user in users:
            assert ask.best(user, 3, PATIENCE_SECONDS).items == ()
    held.process.terminate()
    assert held.process.wait(PATIENCE_SECONDS) == 0
    events = [json.loads(line) for line in held.log.read_text().splitlines()]
    for event in events:
        if event["event"] == "shard.started":
            with pytest.raises(ProcessLookupError):
                os.kill(event["process"], 0)

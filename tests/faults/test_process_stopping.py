"""Workers that are stopped, killed or frozen under 25 queries and 40 ratings a second: every query
has an outcome, an answer or a refusal with a reason, and `/livez` answers meanwhile."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import Consumer, TopicPartition

from consumers.recommendations import Recommendations
from stream_app.cli.demo.demo_processes import WorkerProcess
from stream_app.kafka import clients
from stream_app.wire import Topics
from tests.conftest import Kafka
from tests.faults.conftest import Flow
from tests.fixtures import forks
from tests.fixtures.gateway_beside import served
from tests.fixtures.query_load import QueryLoad
from tests.fixtures.streams import events, publish
from tests.fixtures.waiting import PATIENCE_SECONDS, until
from tests.kafka.conftest import Start
from tests.kafka.test_query import members

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]
BOTH = pytest.mark.parametrize("named", [True, False], ids=["named", "unnamed"])
# What names add is in the first of these tests.
MOSTLY_UNNAMED = pytest.mark.parametrize(
    "named", [pytest.param(True, marks=pytest.mark.nightly), False], ids=["named", "unnamed"]
)
_LIVE_SECONDS = 5.0  # a second on a machine that does nothing else


class Pair:
    """Two workers that are ready, and the slowest answer of `/livez` of those that are to run."""

    def __init__(self, start: Start, named: bool) -> None:
        self._start, self._named = start, named
        self.workers = {name: self._started(name) for name in "ab"}
        self.slowest = 0.0
        self._ended = threading.Event()
        self._probe = threading.Thread(target=self._look)
        self._running = set(self.workers)
        self._probe.start()

    def _started(self, name: str) -> WorkerProcess:
        return self._start(*(("--instance", name) if self._named else ()))

    def signal(self, name: str, word: signal.Signals) -> None:
        """Send a signal to a worker, which need not answer from now on."""
        self._running.discard(name)
        os.kill(self.workers[name].process.pid, word)

    def ended(self, name: str) -> float:
        """Return how long this worker takes to end, if it ends as one that was asked to."""
        began = time.monotonic()
        assert self.workers[name].process.wait(PATIENCE_SECONDS) in (0, -signal.SIGKILL)
        return time.monotonic() - began

    def restart(self, name: str) -> None:
        """Start a worker that has ended again, until it is ready."""
        self.workers[name] = self._started(name)
        self._running.add(name)

    def _look(self) -> None:
        while not self._ended.wait(0.05):
            for name in sorted(self._running):
                began = time.monotonic()
                try:
                    self.workers[name].get("/livez", PATIENCE_SECONDS)
                except OSError:
                    continue  # it has just ended
                if name in self._running:
                    self.slowest = max(self.slowest, time.monotonic() - began)

    def close(self) -> None:
        """Look no more."""
        self._ended.set()
        self._probe.join()


@pytest.fixture
def pair(start: Start, named: bool) -> Iterator[Pair]:
    """Give two workers."""
    found = Pair(start, named)
    yield found
    found.close()


@contextmanager
def loaded(load: QueryLoad, flow: Flow, rng: np.random.Generator) -> Iterator[QueryLoad]:
    """Keep the load for the length of the block, begun before it."""
    with load, flow([publish(event) for event in events(rng, 4000)]):
        until(lambda: len(load.replies) > 50, "answers")
        yield load


def go_on(load: QueryLoad) -> None:
    """Return after two seconds more of the load."""
    more = len(load.sent) + 50
    until(lambda: len(load.sent) > more, "more queries")


def whole(load: QueryLoad, pair: Pair, what: str) -> dict[str, int]:
    """Return how many queries had each outcome, later ones too; none is lost, and the workers were
    alive."""
    go_on(load)
    counts = load.settled()
    print(f"{what}: {dict(counts)}; /livez within {pair.slowest:.2f} s")
    assert counts["lost"] == 0
    assert counts["answered"] + counts["busy"] + counts["expired"] == counts["sent"]
    assert pair.slowest < _LIVE_SECONDS
    return counts


@BOTH
def test_a_rolling_restart_loses_no_query_and_repeats_few(
    pair: Pair, flow: Flow, rng: np.random.Generator, kafka: Kafka, topics: str, named: bool
) -> None:
    with loaded(QueryLoad(kafka.connection, topics), flow, rng) as load:
        for name in "ab":
            pair.signal(name, signal.SIGTERM)
            assert pair.ended(name) < _LIVE_SECONDS
            go_on(load)
            pair.restart(name)
            go_on(load)
        counts = whole(load, pair, f"rolling restart, named {named}")
    assert counts["answered"] == counts["sent"]
    assert counts["twice"] < 10  # a commit that a rebalance refused


@MOSTLY_UNNAMED
def test_of_two_workers_stopped_at_once_no_query_is_lost(
    pair: Pair, flow: Flow, rng: np.random.Generator, kafka: Kafka, topics: str, named: bool
) -> None:
    """What waits meanwhile is answered by those that start afterwards, or refused as expired."""
    with loaded(QueryLoad(kafka.connection, topics, (2.0, 600.0)), flow, rng) as load:
        for name in "ab":
            pair.signal(name, signal.SIGTERM)
        assert max(map(pair.ended, "ab")) < _LIVE_SECONDS
        go_on(load)
        go_on(load)  # what came first expires
        for name in "ab":
            pair.restart(name)
        counts = whole(load, pair, f"both at once, named {named}")
    assert counts["expired"] > 0
    assert counts["answered"] > counts["sent"] // 2
    assert counts["twice"] < 10  # a commit that a rebalance refused


@MOSTLY_UNNAMED
def test_a_killed_worker_loses_no_query(
    pair: Pair, flow: Flow, rng: np.random.Generator, kafka: Kafka, topics: str, named: bool
) -> None:
    """Some are answered twice: what it had read and not committed is read again."""
    with loaded(QueryLoad(kafka.connection, topics), flow, rng) as load:
        pair.signal("a", signal.SIGKILL)
        pair.ended("a")
        go_on(load)
        pair.restart("a")
        whole(load, pair, f"kill -9 of one, named {named}")


@MOSTLY_UNNAMED
def test_a_worker_frozen_beyond_its_session_and_a_flood_lose_no_query(
    pair: Pair, flow: Flow, rng: np.random.Generator, kafka: Kafka, topics: str, named: bool
) -> None:
    load = QueryLoad(kafka.connection, topics, (600.0,))
    with loaded(load, flow, rng):
        pair.signal("a", signal.SIGSTOP)
        load.flood(3000, 0, 600.0)
        until(lambda: members(kafka, topics) < 2, "the broker takes the worker for dead")
        os.kill(pair.workers["a"].process.pid, signal.SIGCONT)
        whole(load, pair, f"frozen and a flood, named {named}")


def test_a_worker_that_starts_takes_no_query_before_it_can_answer(
    start: Start, kafka: Kafka, topics: str, tmp_path: Path
) -> None:
    """It joins when its kernels are compiled and its state is restored."""
    go = tmp_path / "go"
    waits = (
        "import pathlib, time\n"
        "from stream_app.agents.warmup import KernelWarmUp as owner\n"
        "whole = owner.wait\n"
        "def wait(self):\n"
        f"    while not pathlib.Path({str(go)!r}).exists():\n"
        "        time.sleep(0.05)\n"
        "    whole(self)\n"
        "owner.wait = wait\n"
    )
    start()
    with QueryLoad(kafka.connection, topics) as load:
        late = start(ready=False, before=waits)
        until(lambda: late.get("/livez"), "the second worker")
        more = len(load.replies) + 100
        until(lambda: len(load.replies) > more, "answers")
        assert members(kafka, topics) == 1
        go.touch()
        late.wait_until_ready()
        assert members(kafka, topics) == 2
        counts = load.settled()
    assert counts["answered"] == counts["sent"]


def test_readers_that_wait_see_their_answer_after_the_restart(
    start: Start, kafka: Kafka, topics: str, tmp_path: Path
) -> None:
    """The command, a gateway and the class of the public package."""
    worker = start()
    worker.process.terminate()
    assert worker.process.wait(PATIENCE_SECONDS) == 0
    found: list[str] = []
    with (
        served(kafka.bootstrap, topics) as gateway,
        Recommendations(kafka.bootstrap, topics) as ask,
    ):
        where = ["--bootstrap", kafka.bootstrap, "--prefix", topics]
        words = ["ask", "--device", "0" * 32, "--timeout", "120", *where]
        command = forks.start(words, tmp_path / "asked")
        waiting = threading.Thread(target=lambda: found.append(ask.best("0" * 32, 5, 120).method))
        waiting.start()
        queries = clients.consumer(kafka.connection)  # kept: what it was asked ends with it
        until(lambda: asked(queries, topics) >= 2, "both have asked")
        start()
        waiting.join(PATIENCE_SECONDS)
        assert command.wait(PATIENCE_SECONDS) == 0
        assert gateway.reply(f"/recommendations/{'0' * 32}?k=3")[0] == 200
    assert found == ["popular"]


def asked(queries: Consumer, topics: str) -> int:
    """Return how many queries the topic holds."""
    name = Topics(topics).queries
    places = [TopicPartition(name, partition) for partition in range(4)]
    return sum(clients.offsets(queries, place)[1] for place in places)

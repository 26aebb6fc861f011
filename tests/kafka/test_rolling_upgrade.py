"""Workers of the release before are replaced one after the other, under ratings and queries, and
only then does the design change; a worker of that release ends at the change, and again at each
later start."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

from stream_app.broker.local import free_ports
from stream_app.cli import run
from stream_app.cli.demo import demo_processes
from stream_app.cli.demo.demo_processes import WorkerProcess
from stream_app.operations.session import Session
from stream_app.operations.verify import verify
from stream_app.settings import Settings
from tests.conftest import Kafka
from tests.fixtures import release_before
from tests.fixtures.query_stream import QueryStream
from tests.fixtures.streams import Published, events, publish
from tests.fixtures.waiting import PATIENCE_SECONDS, until
from tests.kafka.conftest import Send, Start

pytestmark = [pytest.mark.kafka, pytest.mark.nightly]
CHANGED = {"MURMUREC_TUNING_CLIP": "2.5"}
UNKNOWN_VERSION = "knows versions up to 2: install a newer one"
_AT_ONCE, _PAUSE_SECONDS = 5, 0.05


@pytest.fixture
def start_old(kafka: Kafka, start: Start, topics: str, tmp_path: Path) -> Iterator[Start]:
    """Give a function that starts a worker of the release before; all are ended afterwards."""
    environment = {"PYTHONPATH": str(release_before.unpacked())}
    with ExitStack() as stack:

        def started(*more: str) -> WorkerProcess:
            folder = tmp_path / f"old-{len(list(tmp_path.iterdir()))}"
            folder.mkdir()
            words = ["--bootstrap", kafka.bootstrap, "--prefix", topics, "--group", topics, *more]
            running = demo_processes.running(words, free_ports(1)[0], folder, None, environment)
            return stack.enter_context(running)

        yield started


@contextmanager
def flowing(send: Send, records: Sequence[Published]) -> Iterator[Callable[[], int]]:
    """Send ratings for the length of the block; gives how many were sent."""
    ended, sent = threading.Event(), [0]

    def feed() -> None:
        while sent[0] < len(records) and not ended.wait(_PAUSE_SECONDS):
            send(records[sent[0] : sent[0] + _AT_ONCE])
            sent[0] += _AT_ONCE

    thread = threading.Thread(target=feed, name="ratings", daemon=True)
    thread.start()
    try:
        yield lambda: sent[0]
    finally:
        ended.set()
        thread.join(PATIENCE_SECONDS)


def agree(workers: Sequence[WorkerProcess]) -> None:
    """Return when these workers have compared two more checkpoints, each with equal digests."""

    def agreed() -> int:
        return sum(worker.state()["replicas_agreed"] for worker in workers)

    before = agreed()
    until(lambda: agreed() >= before + 2, "the digests of the workers are equal at two more cuts")
    for worker in workers:
        assert worker.metrics()["replicas_differ_total"] == 0


def stopped(worker: WorkerProcess) -> None:
    """End a worker as its supervisor would."""
    worker.process.terminate()
    assert worker.process.wait(PATIENCE_SECONDS) == 0, worker.log.read_text()


def refused(worker: WorkerProcess, sentence: str) -> None:
    """Return when a worker of the release before has ended by itself with this sentence."""
    assert worker.process.wait(PATIENCE_SECONDS) == 1
    said = worker.log.read_text()
    assert "Traceback" not in said
    assert sentence in said


def test_workers_are_upgraded_one_after_the_other_and_then_the_design_changes(
    start: Start,
    start_old: Start,
    send: Send,
    kafka: Kafka,
    topics: str,
    settings: Settings,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    records = [publish(event) for event in events(rng, 30_000, mechanism="rr:5:2")]
    first, second = start_old(), start_old()
    for worker in (first, second):
        worker.wait_until_ready()
    with flowing(send, records) as sent, QueryStream(kafka.connection, topics) as queries:
        agree([first, second])
        stopped(first)
        third = start()
        agree([second, third])
        stopped(second)
        fourth = start()
        agree(new := [third, fourth])
        session = Session.from_settings(settings)
        assert not verify(session).differences
        old = start_old()
        old.wait_until_ready()
        agree([*new, old])

        for name, value in CHANGED.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("MURMUREC_MECHANISMS", ",".join((*settings.mechanisms, "rr:5:1/2")))
        where = ["--bootstrap", kafka.bootstrap, "--prefix", topics]
        assert run(["config", "apply", *where]) == 0
        refused(old, UNKNOWN_VERSION)
        until(
            lambda: all(w.state()["design_digest"] != session.spec.digest for w in new),
            "the workers have the new design",
        )
        agree(new)
        refused(start_old(), "and this worker reads format 2: install the newer version")
        refused(start_old("--rebuild"), "2 workers run in group")  # that sentence offers it, too
        agree(new)
        queries.settle()
    until(
        lambda: all(worker.state()["counts"]["applied"] == sent() for worker in new),
        "both workers have applied every record",
    )
    assert not verify(Session.from_settings(settings), tuple(w.url for w in new)).differences

    state = third.state()
    for worker in new:
        stopped(worker)
    refused(start_old("--rebuild"), UNKNOWN_VERSION)
    found = start().wait_for(state["positions"])
    kept = ("cut", "model_digest", "ledger_digest", "design_digest")
    assert [found[name] for name in kept] == [state[name] for name in kept]

"""Workers of small designs as real processes, and a producer of records as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from stream_app.broker.local import free_ports
from stream_app.cli.demo.demo_processes import WorkerProcess, running
from stream_app.deployment import Deployment, spec_from_settings
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.replay.recompute import Replay
from stream_app.settings import Settings, load
from stream_app.state.replica import Replica
from stream_app.wire import Topics
from tests.conftest import Kafka
from tests.fixtures import forks
from tests.fixtures.small_worker import SMALL
from tests.fixtures.streams import Published
from tests.fixtures.waiting import PATIENCE_SECONDS

__all__ = ["SMALL"]

SOON = 1.5  # seconds after which the broker takes a silent worker for dead
Start = Callable[..., WorkerProcess]
Send = Callable[..., None]


@pytest.fixture(autouse=True)
def own_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go to an empty folder: a file of a relative name is not left in the repository."""
    monkeypatch.chdir(tmp_path_factory.mktemp("folder"))


@pytest.fixture
def session_seconds() -> float | None:
    """Give the session of the workers, None for the six seconds of the product; a module whose
    tests wait for a take-over gives `SOON`."""
    return None


@pytest.fixture
def start(
    kafka: Kafka,
    topics: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    session_seconds: float | None,
) -> Iterator[Start]:
    """Give a function that starts a worker, by default ready, and stops all of them afterwards."""
    for name, value in SMALL.items():
        monkeypatch.setenv(name, value)
    with ExitStack() as stack:

        def started(
            *arguments: str, ready: bool = True, forked: bool = True, **options: Any
        ) -> WorkerProcess:
            folder = tmp_path / f"worker-{len(list(tmp_path.iterdir()))}"
            folder.mkdir()
            common = ["--bootstrap", kafka.bootstrap, "--prefix", topics, "--group", topics]
            words, options = [*common, *arguments], {"session_seconds": session_seconds} | options
            if forked:
                block = forks.worker(words, free_ports(1)[0], folder, **options)
            else:
                block = running(words, free_ports(1)[0], folder)
            worker = stack.enter_context(block)
            if ready:
                worker.wait_until_ready()
            return worker

        yield started


@pytest.fixture
def send(kafka: Kafka, topics: str) -> Send:
    """Give a function that writes records to their partitions, of these topics or of another
    prefix, and waits for every acknowledgement."""
    producer = clients.producer(kafka.connection)

    def sent(records: Sequence[Published], prefix: str = topics) -> None:
        failed: list[object] = []

        def delivered(error: object, _: object) -> None:
            if error is not None:
                failed.append(error)

        for record in records:
            producer.produce(
                Topics(prefix).ratings,
                key=record.key,
                value=record.value,
                partition=record.partition,
                on_delivery=delivered,
            )
            producer.poll(0)
        assert producer.flush(PATIENCE_SECONDS) == 0
        assert not failed

    return sent


@pytest.fixture
def settings(kafka: Kafka, topics: str, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Give the settings of these workers."""
    for name, value in SMALL.items():
        monkeypatch.setenv(name, value)
    return load(bootstrap_servers=kafka.bootstrap, topic_prefix=topics)


@pytest.fixture
def oracle(settings: Settings) -> Callable[..., Replica]:
    """Give a function that recomputes the state from the topics."""
    assert settings.bootstrap_servers is not None
    bootstrap = settings.bootstrap_servers

    def recomputed(at_cut: int | None = None) -> Replica:
        names = Topics(settings.topic_prefix)
        deployment = Deployment(Connection(bootstrap), names, spec_from_settings(settings))
        return Replay(deployment).from_origin(None, at_cut).replica

    return recomputed


def ends_of(records: Sequence[Published], partitions: int = 4) -> list[int]:
    """Return how many of the records lie on each partition."""
    return [sum(r.partition == p for r in records) for p in range(partitions)]

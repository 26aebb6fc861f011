"""Faults of the broker against real workers: how a fault is watched, and how it is proved that it
did no harm.

The fixtures start workers and send records as those of `tests.kafka` do; a module that has a broker
of its own gives it as `kafka`. Checkpoints come five times a second.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from stream_app.cli import run
from stream_app.cli.demo.demo_processes import WorkerProcess
from stream_app.deployment import new_replica
from stream_app.kafka import clients
from stream_app.kafka.topic_admin import delete
from stream_app.settings import Settings
from stream_app.state.replica import Replica
from stream_app.wire import Topics, decode_many
from stream_app.wire.limits import CONTRACT
from tests.conftest import Kafka
from tests.faults.brokers import NoMountError, small_disk
from tests.fixtures.cut_log import cuts
from tests.fixtures.small_worker import opened
from tests.fixtures.streams import Published, log, run_of
from tests.fixtures.waiting import PATIENCE_SECONDS, until
from tests.kafka.conftest import (
    Send,
    ends_of,
    oracle,
    own_folder,
    send,
    session_seconds,
    settings,
    start,
)

__all__ = ["oracle", "own_folder", "send", "session_seconds", "settings", "start"]  # fixtures

Oracle = Callable[..., Replica]
Flow = Callable[[Sequence[Published]], AbstractContextManager[None]]
Proof = Callable[[dict[str, Any]], None]
Command = Callable[..., tuple[int, str]]


def apply_parts(
    worker: WorkerProcess, send: Send, records: Sequence[Published], *ends: int
) -> dict[str, Any]:
    """Send the records up to each end, each part when the worker has applied the one before, and
    return the worker's state."""
    state: dict[str, Any] = {}
    for first, end in pairwise((0, *ends)):
        send(records[first:end])
        state = worker.wait_for(ends_of(records[:end]))
    return state


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let checkpoints come soon."""
    monkeypatch.setenv("MURMUREC_TUNING_CHECKPOINT_SECONDS", "0.2")


@pytest.fixture
def names(topics: str) -> Topics:
    """Give the names of the topics."""
    return Topics(topics)


@pytest.fixture
def admin(kafka: Kafka) -> AdminClient:
    """Give an administrator."""
    return clients.admin(kafka.connection)


@pytest.fixture
def flow(kafka: Kafka, names: Topics) -> Flow:
    """Give a block during which records are sent, 40 a second; at its end the rest is sent at once,
    and the broker has acknowledged all."""

    @contextmanager
    def flowing(records: Sequence[Published]) -> Iterator[None]:
        producer = clients.producer(kafka.connection, reconnect_backoff_max_ms=500)
        failed: list[str] = []
        lost: list[Published] = []
        hurry, stopped = threading.Event(), threading.Event()

        def delivered(record: Published, error: KafkaError | None, _: object) -> None:
            # A broker whose disk is full answers without a reason; a device sends such bytes again.
            if error is not None and error.code() == KafkaError.UNKNOWN:
                lost.append(record)
            elif error is not None:
                failed.append(f"partition {record.partition}: {error}")

        def produce(record: Published) -> None:
            producer.produce(
                names.ratings,
                key=record.key,
                value=record.value,
                partition=record.partition,
                on_delivery=partial(delivered, record),
            )
            producer.poll(0)

        def send() -> None:
            for record in records:
                produce(record)
                hurry.wait(0.025)  # the pace
                if stopped.is_set():
                    return

        sending = threading.Thread(target=send)
        sending.start()
        try:
            yield
        except BaseException:
            stopped.set()
            raise
        finally:
            hurry.set()
            sending.join()
        assert producer.flush(PATIENCE_SECONDS) == 0
        for record in lost[:]:
            produce(record)
        again = len(lost)
        assert producer.flush(PATIENCE_SECONDS) == 0
        assert not failed
        assert len(lost) == again

    return flowing


@pytest.fixture
def command(settings: Settings, capsys: pytest.CaptureFixture[str]) -> Command:
    """Give a function that runs a command on the deployment; it returns the exit code and the
    output."""
    where = ["--bootstrap", str(settings.bootstrap_servers), "--prefix", settings.topic_prefix]

    def ran(*arguments: str) -> tuple[int, str]:
        capsys.readouterr()
        code = run([*arguments, *where])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return ran


@pytest.fixture
def proof(oracle: Oracle, command: Command) -> Proof:
    """Give a function that shows that a worker's state is that of the log, and so is what the
    topics hold."""

    def proved(state: dict[str, Any]) -> None:
        assert digests(oracle(state["cut"])) == (state["model_digest"], state["ledger_digest"])
        code, output = command("state", "verify")
        assert code == 0, output

    return proved


@pytest.fixture
def replayed(kafka: Kafka, names: Topics, settings: Settings) -> Callable[..., Replica]:
    """Give a function that applies the records of a test by the cut log: an oracle for a log that
    no longer holds them."""

    def applied(records: Sequence[Published], at_cut: int) -> Replica:
        replica, parts = new_replica(opened(settings)), log(list(records))
        replica.set_contract(CONTRACT)  # the first entry of a new log
        intake = replace(replica.spec.intake, contract=CONTRACT)
        for cut in cuts(kafka, names):
            if cut.number > at_cut:
                break
            for p, part in enumerate(parts):
                first, beyond = replica.end_offsets[p], cut.end_offsets[p]
                if first < beyond:
                    replica.apply(decode_many(run_of(part, first, beyond, p), intake))
            replica.end_round(cut.number, cut.end_offsets)
        assert replica.cut == at_cut
        return replica

    return applied


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Give a function that makes a small disk; skips where nothing may be mounted."""
    with ExitStack() as stack:

        def made(size: str, inodes: int = 0) -> Path:
            folder = tmp_path / f"disk-{len(list(tmp_path.iterdir()))}"
            folder.mkdir()
            try:
                return stack.enter_context(small_disk(folder, size, inodes))
            except NoMountError as error:
                pytest.skip(f"a small disk needs the right to mount: {error}")

        yield made


# --- what is asked of a worker --------------------------------------------------------------------


def digests(replica: Replica) -> tuple[str, str]:
    """Return the digests of model and ledger."""
    return replica.model_digest(), replica.ledger_digest()


def sentence(worker: WorkerProcess, seconds: float = PATIENCE_SECONDS) -> str:
    """Return the one sentence with which a worker ends by itself, refused, within so many
    seconds."""
    try:
        code = worker.process.wait(seconds)
    except subprocess.TimeoutExpired:
        logged = worker.log.read_text()[-2000:]
        raise AssertionError(f"the worker still runs after {seconds:.0f} s; {logged}") from None
    lines = worker.log.read_text().strip().splitlines()
    assert code == 1, f"exit code {code}: {lines[-3:]}"
    sentences = [line for line in lines if not line.startswith("{")]  # the others are the log
    assert len(sentences) == 1, sentences
    assert sentences[0].startswith("murmurec: "), sentences
    return sentences[0]


def durable_cut(worker: WorkerProcess) -> int:
    """Return the cut of the newest checkpoint that this worker has written, -1 where it has none or
    does not answer, as one that is about to end."""
    worker.check()
    try:
        checkpoint = worker.state().get("checkpoint") or {}
    except OSError:
        return -1
    found = checkpoint.get("durable_cut")
    return -1 if found is None else int(found)


def another_checkpoint(worker: WorkerProcess) -> int:
    """Return the cut of a checkpoint that becomes durable from now on."""
    before = durable_cut(worker)
    until(lambda: durable_cut(worker) > before, f"a checkpoint after cut {before}")
    return durable_cut(worker)


def only_digest_reports_differ(command: Command, worker: WorkerProcess) -> None:
    """Check that only digest reports in the log differ: worker and checkpoint are right."""
    code, output = command("state", "verify", "--worker", worker.url)
    differing = [line for line in output.splitlines() if line.startswith("DIFFERS")]
    assert code == 1
    assert differing
    assert all(line.startswith("DIFFERS: digest report of cut") for line in differing), output


def stop(worker: WorkerProcess) -> None:
    """End a worker as its operator does; it writes a last checkpoint."""
    worker.process.terminate()
    assert worker.process.wait(PATIENCE_SECONDS) == 0, worker.log.read_text()[-2000:]


# --- what is done to topics -----------------------------------------------------------------------


def remove(admin: AdminClient, topic: str) -> None:
    """Delete a topic and return when the broker no longer lists it."""
    delete(admin, [topic])
    until(
        lambda: topic not in admin.list_topics(timeout=PATIENCE_SECONDS).topics, f"{topic} is gone"
    )


def configure(admin: AdminClient, topic: str, name: str, value: str) -> None:
    """Set a configuration of a topic and return when the broker shows it."""
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(timeout=PATIENCE_SECONDS)

    def applied() -> bool:
        asked = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)])
        return all(f.result(timeout=PATIENCE_SECONDS)[name].value == value for f in asked.values())

    until(applied, f"{topic}: {name} is {value}")

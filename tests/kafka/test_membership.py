"""Members of a group on a real broker: back at once, put out, awake too late, and two of one name.

A session is six seconds, as that of a worker; most of the time of these tests is waiting for one to
end.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from stream_app.broker import local
from stream_app.broker.local import free_ports
from stream_app.kafka import clients
from stream_app.kafka.topic_admin import create
from stream_app.wire import Topics
from tests.conftest import Kafka, cache_dir
from tests.fixtures.waiting import PATIENCE_SECONDS
from tests.kafka.members import Running, running

pytestmark = pytest.mark.kafka
Member = Callable[..., Running]
SESSION_SECONDS = 6.0


@pytest.fixture
def member(kafka: Kafka, topics: str, tmp_path: Path) -> Iterator[Member]:
    """Give a function that starts a member and returns when it has been assigned something."""
    with ExitStack() as stack:

        def started(*options: str, ready: bool = True, folder: str = "data") -> Running:
            block = running(kafka.bootstrap, topics, tmp_path / folder, *options)
            process = stack.enter_context(block)
            if ready:
                process.wait("recovered")
            return process

        yield started


def partitions(process: Running) -> set[str]:
    return set(process["assigned"][-1]["topics"])


def kill(process: Running) -> None:
    process.process.kill()
    process.process.wait()


def test_a_killed_static_worker_is_back_at_once_and_its_peer_notices_nothing(
    member: Member,
) -> None:
    session = ("--session", str(2 * PATIENCE_SECONDS))  # nobody waits for its end
    first, peer = member("--instance", "a", *session), member("--instance", "b", *session)
    first.wait("recovered", 2)
    before, at_peer = partitions(first), partitions(peer)
    kill(first)
    again = member("--instance", "a", *session)
    again.wait("owns")
    assert partitions(again) == before
    assert partitions(peer) == at_peer
    assert len(peer["revoked"]) == 1


def test_a_static_worker_that_is_stopped_keeps_its_place(member: Member) -> None:
    session = ("--session", str(2 * PATIENCE_SECONDS))  # a slow machine starts for longer than six
    first, peer = member("--instance", "a", *session), member("--instance", "b", *session)
    first.wait("recovered", 2)
    before = partitions(first)
    first.process.send_signal(signal.SIGTERM)
    assert first.exit_code() == 0
    again = member("--instance", "a", *session)
    again.wait("owns")
    assert partitions(again) == before
    assert len(peer["revoked"]) == 1


@pytest.mark.thorough
def test_what_a_static_worker_had_goes_to_its_peer_when_it_does_not_come_back(
    member: Member,
) -> None:
    first, peer = member("--instance", "a"), member("--instance", "b")
    first.wait("owns")
    first.wait("recovered", 2)
    kill(first)
    peer.wait("owns")
    assert len(partitions(peer)) == 6


@pytest.mark.thorough
def test_a_static_worker_that_wakes_up_after_its_twin_took_over_ends(member: Member) -> None:
    frozen = member("--instance", "a", folder="here")
    frozen.wait("owns")
    frozen.command("claim")
    frozen.wait("done")
    with awakened(frozen):
        twin = member("--instance", "a", folder="elsewhere")
        twin.wait("owns")
        time.sleep(
            SESSION_SECONDS + 1
        )  # frozen for longer than a session: there is nothing to poll
    frozen_code = frozen.exit_code()
    assert frozen_code == 75
    assert "instance a of group" in frozen.stderr()
    twin.command("claim")
    assert twin.wait("written")["offset"] == 1
    assert twin.process.poll() is None


def awakened(process: Running) -> ExitStack:
    """Freeze a process for the length of the block."""
    process.process.send_signal(signal.SIGSTOP)
    stack = ExitStack()
    stack.callback(process.process.send_signal, signal.SIGCONT)
    return stack


@pytest.mark.thorough
def test_of_two_live_workers_with_one_name_the_first_ends(member: Member) -> None:
    first = member("--instance", "a", folder="here")
    first.wait("owns")
    second = member("--instance", "a", folder="elsewhere")
    assert first.exit_code() == 75
    assert "MURMUREC_INSTANCE" in first.stderr()
    second.wait("owns")
    with suppress(AssertionError):
        second.wait("revoked", 2, seconds=3)
    assert second.process.poll() is None
    assert len(second["revoked"]) == 1


@pytest.mark.thorough
def test_a_second_worker_with_one_name_and_one_data_folder_does_not_start(member: Member) -> None:
    first = member("--instance", "a")
    second = member("--instance", "a", ready=False)
    assert second.exit_code() == 1
    sentence = second.wait("refused")["sentence"]
    assert f"process {first.process.pid}" in sentence
    assert "MURMUREC_INSTANCE" in sentence
    assert first.process.poll() is None


@pytest.mark.thorough
def test_a_dynamic_worker_that_wakes_up_writes_nothing_and_joins_again(
    member: Member, kafka: Kafka, topics: str
) -> None:
    frozen = member()
    frozen.wait("owns")
    peer = member()
    frozen.wait("recovered", 2)
    frozen.command("claim")
    frozen.wait("done")
    with awakened(frozen):
        peer.wait("owns")
        peer.command("claim")
        peer.wait("done")
        frozen.command("page 1")  # what it finds to do first when it wakes up
    frozen.wait("put_out")
    frozen.wait("disowned")
    frozen.wait("held_back")
    frozen.wait("recovered", 3)
    assert not frozen["done"][1:]
    assert ".cuts.v1/0" not in partitions(frozen)
    assert ".state.v1/0" not in partitions(frozen)
    reader = clients.consumer(kafka.connection)
    end = clients.offsets(reader, TopicPartition(Topics(topics).state, 0))[1]
    reader.close()
    assert end == 2


def test_a_group_of_another_kind_is_one_sentence_and_no_silence(
    member: Member, kafka: Kafka, topics: str
) -> None:
    member("--no-table")  # without a table Faust assigns otherwise: as a worker of another version
    newer = member(ready=False)
    assert newer.exit_code() == 1
    assert "another version" in newer.wait("refused")["sentence"]


@pytest.mark.thorough
def test_a_paused_process_within_its_session_stays_a_member(member: Member) -> None:
    static = member("--instance", "a")
    static.wait("owns")
    os.kill(static.process.pid, signal.SIGSTOP)
    time.sleep(SESSION_SECONDS / 2)
    os.kill(static.process.pid, signal.SIGCONT)
    static.command("claim")
    static.wait("done")
    assert len(static["revoked"]) == 1


@pytest.mark.nightly
def test_members_outlast_a_broker_that_is_killed_in_a_rebalance_and_away_for_two_sessions(
    tmp_path: Path,
) -> None:
    port, home = free_ports(1)[0], tmp_path / "broker"
    with ExitStack() as stack:
        with local.run(home, cache_dir(), port) as broker:
            create(clients.admin(broker.connection), Topics("t").table())
            static = stack.enter_context(
                running(broker.bootstrap, "t", tmp_path / "data", "--instance", "a")
            )
            static.wait("owns")
            dynamic = stack.enter_context(running(broker.bootstrap, "t", tmp_path / "data"))
            dynamic.wait("recovered")
            os.kill(broker.pid or 0, signal.SIGKILL)
            time.sleep(2 * SESSION_SECONDS)
        with local.run(home, cache_dir(), port):
            up = time.clock_gettime(time.CLOCK_BOOTTIME)
            deadline = time.monotonic() + PATIENCE_SECONDS
            while not all(settled(process, up) for process in (static, dynamic)):
                ended = [process.process.poll() for process in (static, dynamic)]
                assert ended == [None, None], (static.events, dynamic.events)
                assert time.monotonic() < deadline, (static.events, dynamic.events)
                time.sleep(0.1)
            (owner,) = [p for p in (static, dynamic) if ".state.v1/0" in partitions(p)]
            owner.command("claim")
            owner.wait("done")


def settled(process: Running, since: float) -> bool:
    """Return whether it is assigned two partitions of queries and has gone on since."""
    events = [e for e in list(process.events) if e["event"] in ("assigned", "recovered", "revoked")]
    queries = [name for name in partitions(process) if ".queries" in name]
    return events[-1]["event"] == "recovered" and events[-1]["at"] > since and len(queries) == 2


@pytest.mark.thorough
def test_a_static_worker_that_was_frozen_for_long_and_has_no_twin_joins_again(
    member: Member,
) -> None:
    static = member("--instance", "a")
    static.wait("owns")
    static.command("claim")
    static.wait("done")
    with awakened(static):
        time.sleep(SESSION_SECONDS + 2)
    static.wait("owns", 2)
    static.command("claim")
    static.wait("done", 2)
    assert [event["event"] for event in static.events].count("put_out") == 1

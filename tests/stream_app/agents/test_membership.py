"""Membership without a broker: aiokafka's own coordinator, given the answers of a group that has
put it out."""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiokafka
import faust
import pytest
from aiokafka.cluster import ClusterMetadata
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.consumer.subscription_state import SubscriptionState
from aiokafka.errors import GroupAuthorizationFailedError, KafkaConnectionError
from aiokafka.protocol.group import JoinGroupRequest
from faust.assignor.client_assignment import ClientAssignment
from faust.types import TP

from stream_app.agents.faust_ext import group_membership
from stream_app.agents.faust_ext.group_membership import Membership, lock_instance, member_identity
from stream_app.errors import UserError

UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, FENCED, REBALANCING = 25, 22, 82, 27


class Group:
    """A coordinator whose broker answers as the test decides, and the reported events."""

    def __init__(self, instance: str | None, assignors: tuple[Any, ...] = ()) -> None:
        self.answers: list[Any] = []
        self.now = 100.0
        self.slow_seconds = 0.0
        self.events: list[str] = []
        self.failures: list[BaseException] = []
        client: Any = SimpleNamespace(cluster=ClusterMetadata(), send=self._send)
        options = {"assignors": assignors} if assignors else {}
        loop = asyncio.get_running_loop()
        self.coordinator = GroupCoordinator(
            client,
            SubscriptionState(loop=loop),
            group_id="g",
            group_instance_id=instance,
            **options,
        )
        self.coordinator.coordinator_id = 1
        self.coordinator.generation, self.coordinator.member_id = 3, "m"
        self.membership = Membership(
            instance,
            6.0,
            self.failures.append,
            on_evicted=lambda: self.events.append("evicted"),
            end=self.events.append,
            now=lambda: self.now,
        )
        self.membership.watch(self.coordinator)

    async def _send(self, node: int, request: Any, group: Any = None) -> Any:
        answer = self.answers.pop(0)
        self.now += self.slow_seconds
        if isinstance(answer, BaseException):
            raise answer
        return SimpleNamespace(error_code=answer)

    async def heartbeat(self, answer: Any) -> bool:
        self.answers.append(answer)
        answered: bool = await self.coordinator._do_heartbeat()
        return answered


def with_group(
    instance: str | None,
    body: Callable[[Group], Coroutine[Any, Any, None]],
    assignors: tuple[Any, ...] = (),
) -> None:
    async def main() -> None:
        group = Group(instance, assignors)
        try:
            await body(group)
        finally:
            group.coordinator._coordination_task.cancel()

    asyncio.run(main())


def join(member: str) -> JoinGroupRequest:
    return JoinGroupRequest("g", 6000, 6000, member, "a", "consumer", [])


@pytest.mark.parametrize("code", [UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION])
def test_an_unknown_static_member_first_joins_with_its_former_id(code: int) -> None:
    async def body(group: Group) -> None:
        assert await group.heartbeat(0)
        assert group.membership.lease_valid
        for _ in range(3):  # until the coordinator comes round to joining again
            assert not await group.heartbeat(code)
        assert not group.membership.lease_valid
        assert group.events == ["evicted"]
        assert group.coordinator._rejoin_needed_fut.done()
        assert (group.coordinator.member_id, group.coordinator.generation) == ("m", -1)

    with_group("a", body)


def test_a_static_member_whose_name_is_taken_ends_with_one_sentence() -> None:
    async def body(group: Group) -> None:
        await group.heartbeat(UNKNOWN_MEMBER_ID)
        group.answers.append(FENCED)
        await group.coordinator._send_req(join("m"))
        _, sentence = group.events
        assert "instance a of group g belongs to another process" in sentence
        assert "MURMUREC_INSTANCE" in sentence

    with_group("a", body)


def test_a_static_member_whose_name_is_free_joins_as_a_new_member() -> None:
    async def body(group: Group) -> None:
        await group.heartbeat(UNKNOWN_MEMBER_ID)
        group.answers.append(UNKNOWN_MEMBER_ID)
        await group.coordinator._send_req(join("m"))
        group.coordinator.reset_generation()  # as the join does with this answer
        assert group.coordinator.member_id == ""
        group.answers.append(0)
        await group.coordinator._send_req(join(""))
        assert group.membership.lease_valid
        group.coordinator.generation, group.coordinator.member_id = 4, "n"
        await group.heartbeat(UNKNOWN_MEMBER_ID)
        assert group.coordinator.member_id == "n"  # it asks again before it takes the name
        assert group.events == ["evicted", "evicted"]

    with_group("a", body)


def test_an_evicted_dynamic_member_is_reported_and_joins_again() -> None:
    async def body(group: Group) -> None:
        assert await group.heartbeat(0)
        assert not await group.heartbeat(UNKNOWN_MEMBER_ID)
        assert group.events == ["evicted"]
        assert not group.membership.lease_valid
        assert group.coordinator.generation < 0
        assert group.coordinator._rejoin_needed_fut.done()
        group.coordinator.reset_generation()  # no longer a member: not reported again
        assert group.events == ["evicted"]

    with_group(None, body)


def test_an_evicted_member_does_not_request_its_former_partitions(tmp_path: Path) -> None:
    async def main() -> None:
        app = faust.App("t", broker="kafka://127.0.0.1:1", datadir=str(tmp_path))
        app.assignor._assignment = ClientAssignment(actives={"cuts": [0]}, standbys={})
        group = Group(None, (app.assignor,))
        await group.heartbeat(UNKNOWN_MEMBER_ID)
        assert app.assignor.assigned_actives() == set()
        app.assignor._assignment = ClientAssignment(actives={"cuts": [0]}, standbys={})
        assert app.assignor.assigned_actives() == {TP("cuts", 0)}
        group.coordinator._coordination_task.cancel()

    asyncio.run(main())


def test_the_lease_lasts_a_session_from_the_last_answered_request() -> None:
    async def body(group: Group) -> None:
        held = lambda: group.membership.lease_valid  # noqa: E731 - mypy narrows the attribute
        assert not held()
        group.slow_seconds = 2.0
        assert await group.heartbeat(0)
        group.now = 105.9
        assert held()
        group.now = 106.1  # six seconds after the question, not after the answer
        assert not held()
        group.slow_seconds = 0.0
        assert await group.heartbeat(REBALANCING)
        assert held()
        group.now += 6.1
        assert not await group.heartbeat(KafkaConnectionError())
        assert not held()
        assert group.events == []

    with_group(None, body)


def test_a_member_that_leaves_is_not_evicted() -> None:
    async def body(group: Group) -> None:
        group.coordinator._closing.set_result(None)
        group.coordinator.reset_generation()
        assert group.events == []

    with_group("a", body)


def test_a_group_that_cannot_be_joined_is_one_sentence() -> None:
    async def body(group: Group) -> None:
        waiting = group.coordinator._push_error_to_user(GroupAuthorizationFailedError("g"))
        assert "group g: this user has no right to READ it" in str(group.failures[0])
        assert isinstance(group.failures[0], UserError)
        group.coordinator._closing.set_result(None)
        await waiting

    with_group(None, body)


def test_a_library_that_cannot_be_watched_is_refused() -> None:
    made = Membership(None, 6.0, lambda _: None)
    with pytest.raises(UserError, match=f"aiokafka {aiokafka.__version__} has no reset_generation"):
        made.watch(SimpleNamespace(generation=1))


def test_the_library_has_every_method_that_is_wrapped() -> None:
    source = inspect.getsource(sys.modules[GroupCoordinator.__module__])
    assert source.count("self.reset_generation()") >= 4
    assert source.count("self._coordinator.reset_generation()") >= 2
    assert "self._fetch_max_wait_ms = fetch_max_wait_ms" in inspect.getsource(
        aiokafka.AIOKafkaConsumer.__init__
    )


def test_the_application_watches_its_own_consumer_and_fetches_are_short(tmp_path: Path) -> None:
    async def main() -> None:
        app = faust.App("t", broker="kafka://127.0.0.1:1", datadir=str(tmp_path))
        made = Membership(None, 6.0, lambda _: None)
        group_membership.attach(app, made)
        thread = app.consumer._thread
        assert isinstance(thread, group_membership._Thread)
        assert thread.transport.membership is made
        consumer = thread._create_worker_consumer(app.transport)
        assert consumer._fetch_max_wait_ms == 100
        await consumer._client.close()
        consumer._closed = True

    asyncio.run(main())


# --- who is who ---------------------------------------------------------------------------------


def test_a_static_member_keeps_its_name_and_a_dynamic_name_is_unique() -> None:
    assert member_identity("p", "a") == member_identity("p", "a")
    assert member_identity("p", "a")["consumer_group_instance_id"] == "a"
    assert member_identity("p", "a")["canonical_url"] != member_identity("p", "b")["canonical_url"]
    first, second = member_identity("p", None), member_identity("p", None)
    assert first["canonical_url"] != second["canonical_url"]
    assert "consumer_group_instance_id" not in first


def test_a_second_lock_on_the_same_name_is_refused_and_another_name_is_not(tmp_path: Path) -> None:
    with lock_instance(tmp_path / "new", "p", "a"):
        with pytest.raises(UserError, match=rf"instance a of p .*\(process {os.getpid()}\)"):
            lock_instance(tmp_path / "new", "p", "a")
        lock_instance(tmp_path / "new", "p", "b").close()
        lock_instance(tmp_path / "new", "q", "a").close()
    lock_instance(tmp_path / "new", "p", "a").close()


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path;"
        "from stream_app.agents.faust_ext.group_membership import lock_instance as lock;"
        "held = lock(Path(sys.argv[1]), 'p', 'a'); print('locked', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"locked\n"
        with pytest.raises(UserError, match=f"process {process.pid}"):
            lock_instance(tmp_path, "p", "a")
        process.kill()
        process.wait()
    lock_instance(tmp_path, "p", "a").close()


def test_a_data_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "instances").write_text("a file")
    with pytest.raises(UserError, match="set data_dir"):
        lock_instance(tmp_path, "p", "a")


def test_the_loser_ends_with_its_exit_code_and_its_sentence() -> None:
    code = "from stream_app.agents.faust_ext.group_membership import end_now; end_now('taken')"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=300, check=False
    )
    assert (done.returncode, done.stderr) == (75, b"murmurec: taken\n")

"""Consumer-group membership: static members, eviction, and how a worker learns of it.

    dynamic   a new member at every start; its partitions lie idle until the session of the dead
              member ends (6 s)
    static    `instance` names the member: a restarted process gets the same partitions at once,
              and no other worker is affected

A static worker does not leave the group when it stops: a restart within the session (an update, a
moved container) causes no rebalance. When the session of a stopped worker ends, its peers take over
its partitions, as after a crash.

Kafka keeps one member per instance, the process that joined last. It answers a heartbeat of the
former process with "unknown member"; aiokafka then joins again under the same name, and two
processes evict each other without end. To prevent this, a static member that is unknown first joins
with its former member id. If the answer is "fenced", another process has the name: this process
ends with exit code 75 (try again later) and one sentence, whether it was frozen and woke up or was
the first of two that run at once. If the answer is "unknown", the session has expired (an
unreachable broker, a frozen process): the process joins as a new member. On one machine a lock file
prevents a second process with the same name from starting.

An evicted worker continues as a replica but may no longer write, and a process that was frozen has
not learned of its eviction. So a worker needs a valid **lease**: a worker that the group has not
answered for a session writes no checkpoint. The time during which the process or the machine sleeps
counts.

This module wraps methods of the one `GroupCoordinator` of the application; no class of the library
is changed. A library without these methods is refused.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import IO, Any, NoReturn, cast

import aiokafka
import faust
import structlog
from aiokafka.errors import GroupAuthorizationFailedError
from aiokafka.protocol.group import HeartbeatRequest, JoinGroupRequest, SyncGroupRequest
from faust.assignor.client_assignment import ClientAssignment
from faust.assignor.partition_assignor import PartitionAssignor
from faust.transport.drivers import aiokafka as driver
from filelock import lock_descriptor
from yarl import URL

from stream_app.errors import UserError
from stream_app.wire.topics import lacking

log = structlog.get_logger()
EXIT_CODE = 75  # sysexits.h: EX_TEMPFAIL
_FETCH_WAIT_MS = 100
_NO_GENERATION = -1
_UNKNOWN_MEMBER_ID = 25
_FENCED_INSTANCE_ID = 82
_REBALANCE_IN_PROGRESS = 27
_MEMBER_REQUESTS = (HeartbeatRequest, JoinGroupRequest, SyncGroupRequest)
_HOOKS = ("reset_generation", "request_rejoin", "_send_req", "_push_error_to_user")
_READ = ("generation", "group_id", "_assignors", "_closing")


def since_boot() -> float:
    """Return seconds since boot; the time while the process or the machine sleeps counts."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def end_now(sentence: str) -> NoReturn:
    """End the process at once, without leaving the group and without a last checkpoint."""
    sys.stderr.write(f"murmurec: {sentence}\n")
    sys.stderr.flush()
    os._exit(EXIT_CODE)


class Membership:
    """This worker's membership; `lease_valid` may be read from any thread.

    `on_evicted` is called, in the consumer's thread, when this worker is no longer a member; `fail`
    when the group cannot be joined at all; `end` when its name belongs to another process.
    """

    def __init__(
        self,
        instance: str | None,
        session_seconds: float,
        fail: Callable[[BaseException], None],
        on_evicted: Callable[[], None] = lambda: None,
        end: Callable[[str], None] = end_now,
        now: Callable[[], float] = since_boot,
    ) -> None:
        self.instance = instance
        self.on_evicted = on_evicted
        self._session_seconds = session_seconds
        self._fail = fail
        self._end = end
        self._now = now
        self._last_answer_time = -float("inf")
        self._instance_is_free = False

    @property
    def lease_valid(self) -> bool:
        """Whether the group answered within a session: then no other worker has its partitions."""
        return self._now() - self._last_answer_time < self._session_seconds

    def watch(self, coordinator: Any) -> None:
        """Follow this group coordinator from now on; raises `UserError` if that fails."""
        missing = [name for name in (*_HOOKS, *_READ) if not hasattr(coordinator, name)]
        if missing:
            raise UserError(
                f"aiokafka {aiokafka.__version__} has no {', '.join(missing)}: membership cannot "
                "be watched; install aiokafka 0.12 to 0.14"
            )
        reset, send = coordinator.reset_generation, coordinator._send_req

        def reset_generation() -> None:
            if coordinator.generation > 0 and not coordinator._closing.done():
                self._evict(coordinator)
            if self.instance is None or self._instance_is_free or coordinator._closing.done():
                reset()
            else:
                coordinator.generation = _NO_GENERATION
                coordinator.request_rejoin()

        async def send_req(request: Any) -> Any:
            began = self._now()
            answer = await send(request)
            if isinstance(request, _MEMBER_REQUESTS):
                self._note_answer(request, answer.error_code, began, coordinator.group_id)
            return answer

        def push_error_to_user(error: BaseException) -> Awaitable[Any]:
            # Faust never reads the error, for which the library would wait without a log line.
            if not coordinator._closing.done():
                self._fail(UserError(_cannot_join(coordinator.group_id, error)))
            return asyncio.wait([coordinator._closing])

        coordinator.reset_generation = reset_generation
        coordinator._send_req = send_req
        coordinator._push_error_to_user = push_error_to_user

    def _note_answer(self, request: Any, code: int, began: float, group: str) -> None:
        if isinstance(request, JoinGroupRequest):
            self._instance_is_free = code == _UNKNOWN_MEMBER_ID
        if code in (0, _REBALANCE_IN_PROGRESS):
            self._last_answer_time = began
        elif code == _FENCED_INSTANCE_ID:
            self._last_answer_time = -float("inf")
            log.error("membership.taken", group=group, instance=self.instance)
            self._end(
                f"instance {self.instance} of group {group} belongs to another process now: give "
                "each worker an instance of its own (MURMUREC_INSTANCE), or stop the other one"
            )

    def _evict(self, coordinator: Any) -> None:
        self._last_answer_time = -float("inf")
        log.warning("membership.lost", group=coordinator.group_id, instance=self.instance)
        _forget_assignment(coordinator)
        self.on_evicted()


def _forget_assignment(coordinator: Any) -> None:
    """Clear the assignment: Faust would return partitions that another worker has by now."""
    for assignor in coordinator._assignors:
        if isinstance(assignor, PartitionAssignor):
            assignor._assignment = ClientAssignment(actives={}, standbys={})


def _cannot_join(group: str, error: BaseException) -> str:
    if isinstance(error, GroupAuthorizationFailedError):
        return lacking(f"group {group}", "READ", "worker")
    return (
        f"group {group} cannot be joined ({error}): give the worker READ on its topics (murmurec "
        "acl check --role worker), and stop workers of another version first"
    )


# --- the application ------------------------------------------------------------------------------


class _Thread(driver.AIOKafkaConsumerThread):
    def _create_worker_consumer(self, transport: Any) -> Any:
        consumer = super()._create_worker_consumer(transport)
        # A fetch that waits at the broker delays every request on its connection: with Faust's
        # fixed 1.5 s, the first queries after a takeover are answered that much later.
        consumer._fetch_max_wait_ms = _FETCH_WAIT_MS
        return consumer

    async def on_start(self) -> None:
        await super().on_start()
        # Before the first subscription, so before the first request to the group.
        transport = cast(_Transport, self.transport)
        transport.membership.watch(self._ensure_consumer()._coordinator)


class _Consumer(driver.Consumer):
    def _new_consumer_thread(self) -> _Thread:
        return _Thread(self, loop=self.loop, beacon=self.beacon)


class _Transport(driver.Transport):
    Consumer = _Consumer

    def __init__(self, url: list[URL], app: faust.App, membership: Membership) -> None:
        super().__init__(url, app)
        self.membership = membership


def attach(app: faust.App, membership: Membership) -> None:
    """Let the application's consumer report to `membership`; call it before the first use."""
    app.transport = _Transport(app.conf.broker_consumer, app, membership)


def member_identity(prefix: str, instance: str | None) -> dict[str, Any]:
    """Return the settings of `faust.App` that name this worker in the group.

    Faust's assignor identifies a worker by its canonical URL and never opens it. A restarted static
    member gets its former assignment, which must carry the same URL even if its port has changed.
    """
    if instance is None:
        return {"canonical_url": URL.build(scheme="http", host=f"member-{os.urandom(8).hex()}")}
    return {
        "consumer_group_instance_id": instance,
        "canonical_url": URL.build(scheme="http", host="instance", path=f"/{prefix}/{instance}"),
    }


def lock_instance(data_dir: Path, prefix: str, instance: str) -> IO[str]:
    """Return a lock file, locked while it is open; raises UserError if another process has it."""
    path = data_dir / "instances" / f"{prefix}.{instance}.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+", encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"the lock file {path} cannot be opened ({error.strerror}): set data_dir to a folder "
            "that this worker may write to"
        ) from None
    try:
        locked = lock_descriptor(file.fileno(), blocking=False)
    except OSError as error:
        file.close()
        raise UserError(
            f"the lock file {path} cannot be locked ({error.strerror}): set data_dir to a folder "
            "whose file system has locks"
        ) from None
    if not locked:
        file.seek(0)
        holder = file.read(32).strip() or "unknown"
        file.close()
        raise UserError(
            f"instance {instance} of {prefix} runs already on this machine (process {holder}): "
            "give each worker an instance of its own (MURMUREC_INSTANCE), or stop the other one"
        )
    file.truncate(0)
    file.write(f"{os.getpid()}\n")
    file.flush()
    return file

"""A worker of several shards: the group that hands them out, and a process for each that it holds.

    worker --shards 4 --admin-port 8470
        worker --shards 4 --admin-port 8470 --shard 2 --admin-port 8473       the last one counts

Each process has the admin port of the worker and 1 + its shard, or any free one. It has its own
session, so that an interrupt of the terminal reaches the worker alone, and is killed by the kernel
with the thread that starts it (`broker/local.py`).

    ends with 1 or 2     refused, and said why: the worker ends with the same exit code
    ends otherwise       killed, or its name was taken: started again, after 1, 2, 4 .. 30 s

The topic of the group has a partition for each shard, and is not read here.

    given     start the process of the shard
    revoked   stop it and wait, and only then let the shard go: no two workers have it
    lost      go on, and when the group answers again, stop what another worker was given

A worker of which the group did not hear for a session has lost its shards: it was frozen, or the
broker was away, and then nobody else was given them either. Two processes of one shard do no harm
meanwhile: they are replicas, as two workers of a deployment of one shard are.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Sequence

import structlog
from confluent_kafka import Consumer, KafkaError, TopicPartition

from stream_app.agents.shards.readiness_pages import Pages
from stream_app.broker.local import free_ports, leashed
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.background_thread import BackgroundThread
from stream_app.kafka.clients import Connection
from stream_app.kafka.passing import is_denied
from stream_app.settings import Settings, check_memory, machine_bytes
from stream_app.wire import Topics
from stream_app.wire.topics import lacking

SESSION_SECONDS = 6.0
_POLL_SECONDS = 0.2
_LEAVE_SECONDS = 1.5


class ShardGroup:
    """This worker's membership; `changed` is called with the shards that it holds, at first when it
    is a member."""

    def __init__(
        self,
        connection: Connection,
        group: str,
        topic: str,
        children: Children,
        changed: Callable[[list[int]], None],
        session_seconds: float = SESSION_SECONDS,
    ) -> None:
        self._group, self._topic, self._children = group, topic, children
        self._changed = changed
        self._lost_shards = set[int]()
        self._consumer = clients.consumer(
            connection,
            group=group,
            auto_offset_reset="latest",
            partition_assignment_strategy="cooperative-sticky",
            session_timeout_ms=int(session_seconds * 1000),
            heartbeat_interval_ms=int(session_seconds * 250),
        )

    def run(self, is_ended: Callable[[], bool]) -> int:
        """Hold shards until `is_ended`, and return 0, or until a process is refused, and return its
        exit code; no process is left. Raises UserError without the rights."""
        self._consumer.subscribe(
            [self._topic], on_assign=self._given, on_revoke=self._revoked, on_lost=self._lost
        )
        try:
            while not is_ended():
                self._poll()
                code = self._children.look()
                if code is not None:
                    return code
            return 0
        finally:
            self._children.stop(self._children.shards)
            leaving = BackgroundThread("leave", self._consumer.close)
            leaving.start()
            leaving.join(_LEAVE_SECONDS)

    def _poll(self) -> None:
        message = self._consumer.poll(_POLL_SECONDS)
        error = message.error() if message is not None else None
        if error is not None and is_denied(error):
            of_group = error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
            what = f"group {self._group}" if of_group else f"topic {self._topic}"
            raise UserError(lacking(what, "READ"))

    def _given(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        consumer.incremental_assign(places)
        consumer.pause(places)
        given = {place.partition for place in places}
        self._children.start(given)
        self._children.stop(self._lost_shards - given)
        self._lost_shards.clear()
        self._changed(self._children.shards)

    def _revoked(self, _: Consumer, places: list[TopicPartition]) -> None:
        self._children.stop([place.partition for place in places])
        self._changed(self._children.shards)

    def _lost(self, _: Consumer, places: list[TopicPartition]) -> None:
        self._lost_shards |= {place.partition for place in places}


log = structlog.get_logger()
STOP_SECONDS = 5.5  # a worker ends itself after 4.5
_REFUSED = (1, 2)
_MOST_PAUSE_SECONDS = 30.0
_STEADY_SECONDS = 60.0  # after which an end is the first again

Command = Callable[[int], Sequence[str]]


class Children:
    """The processes by shard; for one thread, which outlives them."""

    def __init__(self, command: Command, now: Callable[[], float] = time.monotonic) -> None:
        self._command, self._now = command, now
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._begun: dict[int, float] = {}
        self._ends: dict[int, int] = {}
        self._due: dict[int, float] = {}  # of those that ended, when they are started again

    @property
    def shards(self) -> list[int]:
        """The shards that are held."""
        return sorted({*self._running, *self._due})

    def start(self, shards: Collection[int]) -> None:
        """Start a process for each of these shards that has none."""
        for shard in sorted(set(shards) - set(self._running)):
            self._due.pop(shard, None)
            process = subprocess.Popen(
                leashed(self._command(shard)), stdin=subprocess.DEVNULL, start_new_session=True
            )
            self._running[shard], self._begun[shard] = process, self._now()
            log.info("shard.started", shard=shard, process=process.pid)

    def stop(self, shards: Collection[int]) -> None:
        """End these processes and wait; one that does not end in time is killed."""
        for shard in shards:
            self._due.pop(shard, None)
            self._ends.pop(shard, None)
        ending = {each: self._running.pop(each) for each in shards if each in self._running}
        for process in ending.values():
            process.terminate()
        deadline = time.monotonic() + STOP_SECONDS
        for shard, process in ending.items():
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                log.warning("shard.stopped_late", shard=shard)
                process.kill()
                process.wait()
            log.info("shard.stopped", shard=shard)

    def look(self) -> int | None:
        """Start again what was killed, when it is due; return the exit code of a process that was
        refused, None without one."""
        for shard, process in list(self._running.items()):
            code = process.poll()
            if code in _REFUSED:
                return code
            if code is not None:
                self._ended(shard, code)
        self.start([shard for shard, due in self._due.items() if due <= self._now()])
        return None

    def _ended(self, shard: int, code: int) -> None:
        steady = self._now() - self._begun[shard] >= _STEADY_SECONDS
        ends = 0 if steady else self._ends.get(shard, 0)
        pause = min(2.0**ends, _MOST_PAUSE_SECONDS)
        log.warning("shard.ended", shard=shard, code=code, again_seconds=pause)
        del self._running[shard]
        self._ends[shard], self._due[shard] = ends + 1, self._now() + pause


_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class ShardWorker:
    """A worker with these settings and `arguments`, the words of its command."""

    def __init__(
        self, settings: Settings, connection: Connection, arguments: Sequence[str]
    ) -> None:
        self._settings, self._arguments = settings, arguments
        self._held: tuple[int, ...] | None = None
        self._ports: dict[int, int] = {}
        self._pages = Pages(settings, self.urls)
        self._group = ShardGroup(
            connection,
            f"{settings.worker_group}-shards",
            Topics(settings.topic_prefix).exchange,
            Children(self.command),
            self._hold,
        )

    def run(self) -> int:
        """Hold shards until SIGTERM or SIGINT, or until a process is refused; return the exit
        code."""
        ended = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: ended.set())
        address = self._pages.start()
        log.info("worker.started", admin=address, shards=self._settings.shards)
        try:
            return self._group.run(ended.is_set)
        finally:
            self._pages.stop()

    def command(self, shard: int) -> list[str]:
        """Return the command of a shard's process."""
        port = self._settings.admin_port
        port = self._ports[shard] = port + 1 + shard if port else free_ports(1)[0]
        own = ["--shard", str(shard), "--admin-port", str(port)]
        return [sys.executable, "-m", "stream_app.cli", *self._arguments, *own]

    def urls(self) -> dict[int, str] | None:
        """Return the admin address of each process, None before the worker is a member."""
        host = _ANY.get(self._settings.admin_host, self._settings.admin_host)
        host = f"[{host}]" if ":" in host else host
        held = self._held
        return None if held is None else {s: f"http://{host}:{self._ports[s]}" for s in held}

    def _hold(self, shards: Sequence[int]) -> None:
        self._held = tuple(shards)
        log.info("shards.held", shards=list(shards))
        try:
            check_memory(self._settings, machine_bytes(), max(1, len(shards)))
        except UserError as error:
            # Refused, they would go to another worker, and from there to the next.
            log.warning("shards.memory", reason=f"{error}, or run a worker on another machine")

"""The state of a replica as a Faust table of one partition, whose changelog is the state topic.

    key     (array, page)     arrays in the order of their names, pages of `PAGE_BYTES`
    value   the page's current bytes, a read-only view of the replica's array

Faust adds the assignment to the pages: the table's partition goes to exactly one
worker of the group, the same worker as the cut log's (both topics have one partition, so Faust
assigns them together, and does not move them when a worker joins). That worker checkpoints.

The state comes from the log, and after a crash from the newest checkpoint, which the reader thread
reads. Faust's recovery would read the whole topic while queries wait, so a worker that takes over
skips the existing records and leaves the recovery nothing to read. At a later rebalance Faust reads
the records after the last acknowledged record; claims of other workers are reported.

The mapping is read-only: only the learn agent changes the state, by applying the log. Standbys are
off, because every worker is a replica.

Faust's table manager, which handles every rebalance, corrected in two places.

    assigned -> read the end offsets of the changelogs -> read missing records -> resume the streams

At the start Faust waits a second for modules that are still being imported to declare their tables.
A worker attaches every table before the application starts, and the second would be most of its
restart, so this manager does not wait.

Each step may take `broker_request_timeout`. In Faust, a step that takes longer (the broker is
unreachable) ends the service without a log line, as `mode.Service.wait_first` returns the same for
a timeout and for an end; so does an error of the client. After that no rebalance is followed and no
query is answered. This manager repeats the steps until the broker answers.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import faust
import numpy as np
import structlog
from aiokafka.errors import KafkaError
from faust.stores import base as stores
from faust.tables import TableManager
from faust.tables.recovery import RebalanceAgain, Recovery, ServiceStopped
from faust.types import TP
from mode import Service
from numpy.typing import NDArray

from stream_app.agents.checkpointing.fenced_producer import FencedProducer, topic_recreated
from stream_app.errors import UserError
from stream_app.kafka import clients, topic_admin
from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_checks import MADE_AGAIN
from stream_app.wire.state_records import PAGE_BYTES
from stream_app.wire.topics import absent

log = structlog.get_logger()
_PAUSE_SECONDS = 0.5


class PatientRecovery(Recovery):
    """Repeats the steps after a timeout or an error of the client."""

    async def _wait(self, coro: Any, timeout: Any = None) -> None:
        try:
            await super()._wait(coro, timeout)
            return
        except ServiceStopped:
            if self.should_stop:
                raise
            reason = f"no answer within {timeout} s"
        except KafkaError as error:
            reason = repr(error)
        log.warning("rebalance.begins_again", reason=reason)
        await self.sleep(_PAUSE_SECONDS)
        self.signal_recovery_start.set()
        raise RebalanceAgain


class PatientTableManager(TableManager):
    """The service of tables; given to `faust.App` as `TableManager`."""

    @property
    def recovery(self) -> Recovery:
        """The service that runs the steps after a rebalance."""
        if self._recovery is None:
            self._recovery = PatientRecovery(self.app, self, beacon=self.beacon, loop=self.loop)
        return self._recovery

    async def on_start(self) -> None:
        """Register the tables and start the recovery."""
        if not self.should_stop:
            await self._update_channels()
            await self.recovery.start()


Arrays = Callable[[], Mapping[str, NDArray[Any]]]
PageIndex = tuple[int, int]


class MemoryPages(Mapping[PageIndex, memoryview]):
    """The pages of named arrays, read-only; `arrays` is called at every access."""

    def __init__(self, arrays: Arrays) -> None:
        self._arrays = arrays

    def __getitem__(self, place: PageIndex) -> memoryview:
        arrays = sorted(self._arrays().items())
        try:
            array, page = place
        except (TypeError, ValueError):
            raise KeyError(place) from None
        if array not in range(len(arrays)) or page not in range(_pages(arrays[array][1])):
            raise KeyError(place)
        raw = arrays[array][1].reshape(-1).view(np.uint8)[page * PAGE_BYTES :][:PAGE_BYTES]
        return raw.data.toreadonly()

    def __iter__(self) -> Iterator[PageIndex]:
        for number, (_, array) in enumerate(sorted(self._arrays().items())):
            for page in range(_pages(array)):
                yield number, page

    def __len__(self) -> int:
        return sum(_pages(array) for array in self._arrays().values())


def _pages(array: NDArray[Any]) -> int:
    return -(-array.nbytes // PAGE_BYTES)


class PageStore(stores.Store[PageIndex, memoryview]):
    """The store behind the table: the replica's pages, and the known part of the changelog."""

    data: Any

    def __init__(
        self, *args: Any, pages: MemoryPages, changelog: FencedProducer, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self.data = pages
        self._changelog = changelog

    def persisted_offset(self, tp: TP) -> int | None:  # noqa: ARG002
        """Return the last offset that need not be read."""
        position = self._changelog.position
        return position - 1 if position else None

    def set_persisted_offset(self, tp: TP, offset: int) -> None:
        """Do nothing: the changelog counts acknowledged records."""

    async def need_active_standby_for(self, tp: TP) -> bool:  # noqa: ARG002
        """Return False: every worker is a replica, so no standby is needed."""
        return False

    def apply_changelog_batch(
        self,
        batch: Iterable[Any],
        to_key: Callable[[Any], Any],  # noqa: ARG002
        to_value: Callable[[Any], Any],  # noqa: ARG002
    ) -> None:
        """Check the batch for claims of other workers; the state comes from the log."""
        for event in batch:
            message = event.message
            self._changelog.seen(message.offset, message.key, message.value)

    def reset_state(self) -> None:
        """Do nothing: there are no files."""

    async def backup_partition(self, *_: Any, **__: Any) -> None:
        """Do nothing: the changelog is the backup."""

    def restore_backup(self, *_: Any, **__: Any) -> None:
        """Do nothing: the changelog is the backup."""


_ASK_SECONDS = 3.0
_PATIENCE_SECONDS = 5.0
_IDLE_SECONDS = 8.0  # more than a session


class StateTable(faust.Table[PageIndex, memoryview]):
    """The table, made by `attach`; `acquire` and `release` are called as the lease changes."""

    def __init__(
        self,
        app: faust.App,
        *,
        pages: MemoryPages,
        changelog: FencedProducer,
        assigned_with: str,
        partitions_now: Callable[[str], int | None],
        acquire: Callable[[], None],
        release: Callable[[], None],
        fail: Callable[[BaseException], None],
        **options: Any,
    ) -> None:
        super().__init__(app, **options)
        self.changelog = changelog
        self.lease_held = False
        self._pages = pages
        self._partition = TP(changelog.topic, 0)
        self._assigned_with = TP(assigned_with, 0)
        self._partitions_now = partitions_now
        self._acquire, self._release, self._fail = acquire, release, fail
        self._lease_lock = threading.Lock()  # acquire and release never overlap
        self._stepped_down_time = time.monotonic()

    def _new_store(self) -> Any:
        return PageStore(
            "pages://", self.app, self, pages=self._pages, changelog=self.changelog, loop=self.loop
        )

    async def on_start(self) -> None:
        """Start the store; the changelog was created beforehand and is not declared."""
        await self.add_runtime_dependency(self.data)

    # --- reading and writing --------------------------------------------------------------

    def partition_for_key(self, key: Any) -> int:  # noqa: ARG002
        """Return the table's one partition."""
        return 0

    def _refuse(self, *_: Any, **__: Any) -> None:
        raise TypeError("the state cannot be written: only the learn agent changes it, by the log")

    on_key_set = on_key_del = on_clear = clear = _refuse
    __setitem__ = __delitem__ = _refuse
    update = pop = popitem = setdefault = send_changelog = _refuse  # type: ignore[assignment]

    # --- the lease ------------------------------------------------------------------------

    async def on_rebalance(
        self, assigned: set[TP], revoked: set[TP], newly_assigned: set[TP], generation_id: int = 0
    ) -> None:
        """Follow the assignment, before Faust's recovery reads the position in the changelog."""
        await super().on_rebalance(assigned, revoked, newly_assigned, generation_id)
        if self._partition not in assigned:
            self.step_down()
            if self._assigned_with in assigned:
                await self._check_topic()
            return
        known, end = self.changelog.position or 0, await self._end()
        if end is not None and end < known:
            self._fail(topic_recreated(self.changelog.topic, end, known))
        if not self.lease_held:
            self.changelog.begin_term(end)

    async def _end(self) -> int | None:
        try:
            asked = self.app.consumer.highwaters(self._partition)
            end: int | None = (await asyncio.wait_for(asked, _ASK_SECONDS))[self._partition]
            return end
        except Exception as error:  # noqa: BLE001 - Faust's recovery then reads from the beginning
            log.warning("table.end_unknown", topic=self.changelog.topic, reason=repr(error))
            return None

    @Service.task
    async def _watch(self) -> None:
        """Check that the topic still exists when no delivery report has arrived for 5 s: librdkafka
        retries a deleted topic for minutes. Also re-acquire the lease 8 s after stepping down if no
        other worker used it."""
        while not self.should_stop:
            await self.sleep(1.0)
            if self.changelog.unacknowledged_seconds > _PATIENCE_SECONDS:
                await self._check_topic()
            idle = time.monotonic() - self._stepped_down_time
            if idle > _IDLE_SECONDS:
                self._acquire_lease()

    async def _check_topic(self) -> None:
        """End the process unless the topic has one partition; wait for an unreachable broker."""
        name = self.changelog.topic
        try:
            count = await asyncio.to_thread(self._partitions_now, name)
        except UserError:
            return
        try:
            check_partitions(name, count)
        except UserError as refusal:
            self._fail(refusal)

    async def on_recovery_completed(self, active_tps: set[TP], standby_tps: set[TP]) -> None:
        """Acquire the lease: every earlier record is known now."""
        await super().on_recovery_completed(active_tps, standby_tps)
        if self._partition in active_tps:
            self._acquire_lease()

    def _acquire_lease(self) -> None:
        # The partition of an interrupted rebalance may belong to another worker by its end.
        if self._partition not in self.app.assignor.assigned_actives():
            return
        with self._lease_lock:
            if self.lease_held:
                return
            self.lease_held = True
            try:
                self._acquire()
            except BaseException as reason:  # noqa: BLE001 - Faust would not log it
                self._fail(reason)

    def step_down(self) -> None:
        """Release the lease; from any thread.

        It is acquired again with the next assignment, or 8 s later without an assignment: then the
        worker with the later claim was no longer a member of the group.
        """
        self._stepped_down_time = time.monotonic()
        with self._lease_lock:
            if self.lease_held:
                self.lease_held = False
                self._release()


def check_partitions(topic: str, partitions: int | None) -> None:
    """Refuse a state topic that is absent or has another number of partitions than one."""
    if partitions is None:
        raise UserError(absent(topic))
    if partitions != 1:
        raise UserError(f"topic {topic} has {partitions} partitions, not 1: {MADE_AGAIN}")


def partition_counter(connection: Connection) -> Callable[[str], int | None]:
    """Return a function that returns a topic's number of partitions, None if it is absent."""
    return lambda topic: topic_admin.partition_counts(clients.admin(connection), [topic])[topic]


def attach(
    app: faust.App,
    arrays: Arrays,
    changelog: FencedProducer,
    *,
    assigned_with: str,
    partitions_now: Callable[[str], int | None],
    acquire: Callable[[], None],
    release: Callable[[], None],
    fail: Callable[[BaseException], None],
) -> StateTable:
    """Add the table to an application made with `TableManager=PatientTableManager`.

    `assigned_with` is the topic that is assigned together with the changelog: the cut log.
    `acquire` is called on the event loop, `release` from any thread, once at most after each
    `acquire`.
    """
    if app.conf.table_standby_replicas or not isinstance(app.tables, PatientTableManager):
        raise ValueError("the application needs table_standby_replicas=0 and PatientTableManager")
    topic = app.topic(
        changelog.topic,
        key_type=bytes,
        value_type=bytes,
        key_serializer="raw",
        value_serializer="raw",
        partitions=1,
        allow_empty=True,
        acks=False,
    )
    table = StateTable(
        app,
        name="state",
        beacon=app.tables.beacon,
        changelog_topic=topic,
        partitions=1,
        key_type=bytes,
        value_type=bytes,
        pages=MemoryPages(arrays),
        changelog=changelog,
        assigned_with=assigned_with,
        partitions_now=partitions_now,
        acquire=acquire,
        release=release,
        fail=fail,
    )
    app.tables.add(table)
    return table

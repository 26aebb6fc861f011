"""The table of the state without a broker: pages as they are now, no write through it, and a
record of another is noticed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import faust
import numpy as np
import pytest
from aiokafka.errors import NodeNotReadyError
from confluent_kafka import KafkaError
from faust.assignor.client_assignment import ClientAssignment
from faust.tables.recovery import RebalanceAgain, ServiceStopped
from faust.types import TP

from stream_app.agents.checkpointing.fenced_producer import FencedProducer
from stream_app.agents.faust_ext import state_table
from stream_app.agents.faust_ext.state_table import MemoryPages, PatientRecovery
from stream_app.errors import Unanswered, UserError
from stream_app.kafka import acknowledged_writer
from stream_app.wire.state_records import PAGE_BYTES, ClaimKey, PageKey

CLAIM = ClaimKey(b"o" * 16).encode()
PAGE = PageKey(0, 0, 0, 7).encode()
OTHER = ClaimKey(b"x" * 16).encode()


class Sent:
    """What a delivery report shows of a record."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def offset(self) -> int:
        return self._offset


class Refused:
    """What a delivery report shows of a refusal."""

    def str(self) -> str:
        return "Broker: Topic authorization failed"

    def code(self) -> int:
        return int(KafkaError.TOPIC_AUTHORIZATION_FAILED)


class Broker:
    """A producer whose records are acknowledged when the test decides."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[Any, Any], None]] = []
        self.sent: list[tuple[bytes, bytes | None]] = []
        self.end = 0
        self.polled: list[Callable[[], None]] = []

    def produce(
        self, topic: str, key: bytes, value: bytes, partition: int, on_delivery: Any
    ) -> None:
        assert (topic, partition) == ("state", 0)
        self.sent.append((key, value))
        self.waiting.append(on_delivery)

    def poll(self, seconds: float) -> None:
        while self.polled:
            self.polled.pop(0)()

    def acknowledge(self, error: Any = None) -> None:
        offset, self.end = self.end, self.end + (error is None)
        self.waiting.pop(0)(error, Sent(offset))


class WriterRun:
    """The callbacks of a changelog."""

    def __init__(self, foreign_records: dict[int, bytes] | None = None) -> None:
        self.broker = Broker()
        self.failures: list[BaseException] = []
        self.foreign: list[int] = []
        self.looked: list[tuple[int, int]] = []
        self.done = threading.Event()
        self.lease_valid = True
        self._records = foreign_records or {}
        self.changelog = FencedProducer(
            self.broker,  # type: ignore[arg-type]
            "state",
            self.failures.append,
            self.foreign.append,
            self._read_between,
            lambda: self.lease_valid,
        )

    def _read_between(
        self, first: int, beyond: int
    ) -> Iterator[tuple[int, bytes | None, bytes | None]]:
        self.looked.append((first, beyond))
        yield from ((o, self._records.get(o), b"") for o in range(first, beyond))
        self.done.set()

    def write(self, key: bytes, error: Any = None) -> list[int]:
        reports: list[int] = []
        self.changelog.produce(key, b"", reports.append)
        self.broker.acknowledge(error)
        return reports


# --- the changelog ------------------------------------------------------------------------------


def test_consecutive_acknowledged_records_are_all_ours() -> None:
    writer = WriterRun()
    writer.changelog.begin_term(0)
    assert writer.write(CLAIM) == [0]
    for _ in range(5):
        writer.write(PAGE)
    assert (writer.changelog.position, writer.changelog.generation) == (6, 0)
    assert (writer.looked, writer.foreign, writer.failures) == ([], [], [])
    assert writer.changelog.unacknowledged_seconds == 0.0


def test_a_later_claim_in_a_gap_is_reported_once_and_other_records_are_not() -> None:
    writer = WriterRun({1: b"junk", 2: OTHER, 3: PAGE})
    writer.changelog.begin_term(0)
    writer.write(CLAIM)
    writer.broker.end = 4
    writer.write(PAGE)
    assert writer.done.wait(5)
    for _ in range(3):
        writer.write(PAGE)
    writer.changelog.seen(2, OTHER, b"")
    assert (writer.looked, writer.foreign) == ([(1, 4)], [2])


def test_records_before_our_claim_are_not_read() -> None:
    writer = WriterRun({1: OTHER})
    writer.changelog.begin_term(1)
    writer.broker.end = 3
    writer.write(CLAIM)
    writer.write(PAGE)
    writer.changelog.seen(1, OTHER, b"")
    assert (writer.looked, writer.foreign) == ([], [])


def test_our_own_claim_is_not_reported() -> None:
    writer = WriterRun()
    writer.changelog.begin_term(0)
    writer.write(CLAIM)
    again = ClaimKey(b"p" * 16).encode()
    writer.changelog.produce(again, b"", lambda *_: None)
    writer.changelog.seen(1, again, b"")
    assert writer.foreign == []


def test_an_offset_before_our_claim_is_another_topic_of_the_same_name() -> None:
    writer = WriterRun()
    writer.changelog.begin_term(9)
    writer.broker.end = 9
    writer.write(CLAIM)
    writer.broker.end = 0
    writer.write(PAGE)
    assert [type(reason) for reason in writer.failures] == [UserError]
    assert "recreated" in str(writer.failures[0])


def test_a_refused_record_ends_the_process_and_is_not_acknowledged() -> None:
    writer = WriterRun()
    assert writer.write(CLAIM, Refused()) == []
    assert "no right to WRITE" in str(writer.failures[0])
    assert writer.changelog.position is None


def test_without_a_valid_lease_nothing_is_sent() -> None:
    writer = WriterRun()
    writer.lease_valid = False
    with pytest.raises(BufferError, match="may not write"):
        writer.changelog.produce(CLAIM, b"", lambda *_: None)
    assert writer.broker.sent == []
    writer.lease_valid = True
    writer.changelog.produce(CLAIM, b"", lambda *_: None)
    assert writer.changelog.unacknowledged_seconds > 0


def test_a_silence_counts_from_the_first_record_that_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = SimpleNamespace(seconds=0.0, monotonic=lambda: clock.seconds)
    monkeypatch.setattr(acknowledged_writer, "time", clock)
    writer = WriterRun()
    clock.seconds = 1000.0  # nothing to write until now
    writer.changelog.produce(CLAIM, b"", lambda *_: None)
    clock.seconds = 1003.0
    writer.changelog.produce(PAGE, b"", lambda *_: None)
    assert writer.changelog.unacknowledged_seconds == 3.0
    writer.broker.acknowledge()
    assert writer.changelog.unacknowledged_seconds == 0.0


def test_records_that_cannot_be_read_end_the_process() -> None:
    writer = WriterRun()

    def broken(first: int, beyond: int) -> Iterator[tuple[int, bytes | None, bytes | None]]:
        writer.done.set()
        raise UserError("it cannot be read")

    writer.changelog._read_between = broken
    writer.changelog.begin_term(0)
    writer.write(CLAIM)
    writer.broker.end = 4
    writer.write(PAGE)
    assert writer.done.wait(5)
    for thread in threading.enumerate():
        if thread.name == "murmurec-foreign-records":
            thread.join(5)
    assert str(writer.failures[0]) == "it cannot be read"


def test_a_gap_is_read_when_a_broker_that_was_away_is_back() -> None:
    writer = WriterRun({2: OTHER})
    read = writer._read_between
    asked = []

    def away_at_first(first: int, beyond: int) -> Iterator[tuple[int, bytes | None, bytes | None]]:
        asked.append((first, beyond))
        if len(asked) < 3:
            raise Unanswered("the broker is away")
        return read(first, beyond)

    writer.changelog._read_between = away_at_first
    writer.changelog.begin_term(0)
    writer.write(CLAIM)
    writer.broker.end = 4
    writer.write(PAGE)
    assert writer.done.wait(5)
    for thread in threading.enumerate():
        if thread.name == "murmurec-foreign-records":
            thread.join(5)
    assert asked == [(1, 4)] * 3
    assert (writer.foreign, writer.failures) == ([2], [])


# --- pages --------------------------------------------------------------------------------------


def test_the_pages_are_the_arrays_by_name_and_follow_them() -> None:
    arrays = {"b": np.arange(5, dtype="<u2"), "a": np.zeros((3, PAGE_BYTES // 2), np.uint8)}
    pages = MemoryPages(lambda: arrays)
    assert list(pages) == [(0, 0), (0, 1), (1, 0)]
    assert len(pages) == 3
    assert [len(pages[place]) for place in pages] == [PAGE_BYTES, PAGE_BYTES // 2, 10]
    arrays["a"][2, 0] = 7
    assert pages[0, 1][0] == 7
    assert bytes(pages[1, 0]) == arrays["b"].tobytes()
    arrays["b"] = np.arange(3, dtype="<u2")
    assert len(pages[1, 0]) == 6


@pytest.mark.parametrize("place", [(0, 1), (1, 0), (-1, 0), (0, -1), "ab", 3, None])
def test_an_absent_page_is_a_key_error(place: Any) -> None:
    pages = MemoryPages(lambda: {"a": np.zeros(4, np.uint8)})
    assert place not in pages
    assert pages.get(place) is None


def test_a_page_cannot_be_written() -> None:
    pages = MemoryPages(lambda: {"a": np.zeros(4, np.uint8)})
    with pytest.raises(TypeError):
        pages[0, 0][0] = 1


# --- the table ----------------------------------------------------------------------------------


class Table:
    """A table of an application that is never started."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.writer = WriterRun()
        self.lease_events: list[str] = []
        self.partitions: int | None = 1
        self.end = 5
        self.arrays = {"a": np.zeros(PAGE_BYTES + 1, np.uint8)}
        chosen = {
            "table_standby_replicas": 0,
            "TableManager": state_table.PatientTableManager,
            **settings,
        }
        self.app = faust.App("t", broker="kafka://127.0.0.1:1", datadir=str(folder), **chosen)
        self.table = state_table.attach(
            self.app,
            lambda: self.arrays,
            self.writer.changelog,
            assigned_with="cuts",
            partitions_now=lambda _: self.partitions,
            acquire=lambda: self.lease_events.append("own"),
            release=lambda: self.lease_events.append("disown"),
            fail=self.writer.failures.append,
        )

    async def assign(self, *names: str) -> None:
        """Let Faust's consumer report an assignment, then end the recovery."""
        places = {TP(name, 0) for name in names}
        actives = {name: [0] for name in names}
        self.app.assignor._assignment = ClientAssignment(actives=actives, standbys={})
        self.table._end = self._end  # type: ignore[method-assign]
        await self.table.on_rebalance(places, set(), places)
        await self.table.on_recovery_completed(places & {TP("state", 0)}, set())

    async def _end(self) -> int:
        return self.end


def with_table(body: Callable[[Table], Any], folder: Path) -> None:
    async def main() -> None:
        await body(Table(folder))

    asyncio.run(main())


def test_the_table_shows_the_pages_and_refuses_to_be_written(tmp_path: Path) -> None:
    async def body(made: Table) -> None:
        shown: Any = made.table
        assert len(shown) == 2
        assert list(shown) == [(0, 0), (0, 1)]
        made.arrays["a"][-1] = 3
        assert bytes(shown[0, 1]) == b"\3"
        assert (0, 2) not in shown
        for write in (
            lambda: shown.__setitem__((0, 0), b""),
            lambda: shown.__delitem__((0, 0)),
            lambda: shown.pop((0, 0)),
            lambda: shown.update({(0, 0): b""}),
            lambda: shown.setdefault((0, 9), b""),
            lambda: shown.send_changelog(0, b"", b""),
            shown.popitem,
            shown.clear,
        ):
            with pytest.raises(TypeError, match="only the learn agent changes it"):
                write()
        assert made.writer.broker.sent == []

    with_table(body, tmp_path)


def test_the_lease_comes_with_the_partition_and_stays_over_rebalances(
    tmp_path: Path,
) -> None:
    async def body(made: Table) -> None:
        await made.assign("cuts", "state", "queries")
        await made.assign("cuts", "state")
        assert made.lease_events == ["own"]
        await made.assign("queries")
        assert made.lease_events == ["own", "disown"]
        await made.assign("queries")
        await made.assign("cuts", "state")
        assert made.lease_events == ["own", "disown", "own"]

    with_table(body, tmp_path)


def test_faust_reads_only_records_after_our_last_record(tmp_path: Path) -> None:
    async def body(made: Table) -> None:
        place = TP("state", 0)
        assert made.table.persisted_offset(place) is None
        await made.assign("cuts", "state")
        assert made.table.persisted_offset(place) == 4
        made.writer.broker.end = 5
        for key in (CLAIM, PAGE, PAGE):
            made.writer.write(key)
        made.end = 12
        await made.assign("cuts", "state")
        assert made.table.persisted_offset(place) == 7
        made.end = 0
        await made.assign("cuts", "state")
        assert "recreated" in str(made.writer.failures[0])

    with_table(body, tmp_path)


def test_a_worker_that_stepped_down_and_is_still_assigned_acquires_the_lease_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_table, "_IDLE_SECONDS", 0.0)

    async def body(made: Table) -> None:
        async def at_once(_: float) -> None:
            await asyncio.sleep(0)

        made.table.sleep = at_once  # type: ignore[assignment, method-assign]
        await made.assign("cuts", "state")
        made.table.step_down()
        made.table.step_down()
        assert made.lease_events == ["own", "disown"]
        watching = asyncio.ensure_future(made.table._watch(made.table))
        async with asyncio.timeout(60):
            while len(made.lease_events) < 3:
                await asyncio.sleep(0)
        watching.cancel()
        assert made.lease_events == ["own", "disown", "own"]

    with_table(body, tmp_path)


def test_a_partition_lost_during_a_rebalance_gives_no_lease(tmp_path: Path) -> None:
    async def body(made: Table) -> None:
        await made.assign("cuts", "state")
        made.table.step_down()
        made.app.assignor._assignment = ClientAssignment(actives={}, standbys={})
        await made.table.on_recovery_completed({TP("state", 0)}, set())
        assert made.lease_events == ["own", "disown"]

    with_table(body, tmp_path)


@pytest.mark.parametrize("partitions", [None, 3])
def test_the_cut_log_without_the_table_is_refused_with_its_reason(
    tmp_path: Path, partitions: int | None
) -> None:
    async def body(made: Table) -> None:
        made.partitions = partitions
        await made.assign("cuts")
        assert "murmurec topics apply" in str(made.writer.failures[0])
        assert made.lease_events == []

    with_table(body, tmp_path)


def test_an_existing_topic_without_an_assignment_is_waited_for(tmp_path: Path) -> None:
    async def body(made: Table) -> None:
        await made.assign("cuts")
        assert made.writer.failures == []

    with_table(body, tmp_path)


@pytest.mark.parametrize(
    "settings", [{"table_standby_replicas": 1}, {"TableManager": faust.tables.TableManager}]
)
def test_an_application_with_standbys_or_fausts_own_manager_is_refused(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match="table_standby_replicas=0"):
            Table(tmp_path, **settings)

    asyncio.run(main())


# --- the service of tables ----------------------------------------------------------------------


def recovering(body: Callable[[Any], Any], folder: Path) -> None:
    async def main() -> None:
        recovery = Table(folder).app.tables.recovery
        assert isinstance(recovery, PatientRecovery)
        await body(recovery)

    asyncio.run(main())


def test_a_step_of_a_rebalance_that_takes_too_long_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_table, "_PAUSE_SECONDS", 0.0)

    async def body(recovery: Any) -> None:
        with pytest.raises(RebalanceAgain):
            await recovery._wait(asyncio.Event(), timeout=0.01)
        assert recovery.signal_recovery_start.is_set()

    recovering(body, tmp_path)


def test_a_step_that_fails_at_the_broker_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_table, "_PAUSE_SECONDS", 0.0)

    async def away() -> None:
        raise NodeNotReadyError("away")

    async def body(recovery: Any) -> None:
        with pytest.raises(RebalanceAgain):
            await recovery._wait(away(), timeout=1.0)
        assert recovery.signal_recovery_start.is_set()

    recovering(body, tmp_path)


def test_a_step_ends_when_it_is_done_the_service_stops_or_there_is_a_defect(
    tmp_path: Path,
) -> None:
    async def broken() -> None:
        raise KeyError("defect")

    async def body(recovery: Any) -> None:
        await recovery._wait(asyncio.sleep(0), timeout=1.0)
        with pytest.raises(KeyError):
            await recovery._wait(broken(), timeout=1.0)
        recovery._stopped.set()
        with pytest.raises(ServiceStopped):
            await recovery._wait(asyncio.Event(), timeout=1.0)

    recovering(body, tmp_path)

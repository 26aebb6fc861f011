"""A device program in a test: a clock on which nothing takes time, and a broker in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import KafkaError

from producers.daemon.cells import Cells, Reporting
from producers.daemon.delivery import Delivery
from producers.daemon.kept_ratings import KeptRatings
from producers.daemon.runner import Daemon
from producers.daemon.sources.source import Source
from producers.device.requests import ReportSettings
from producers.identities import Identities
from producers.journal import Journal
from producers.journal.disk import Disk
from producers.ranking.clean_history import CleanHistory
from producers.scale import Scale
from stream_app import wire
from stream_app.errors import UserError
from stream_app.privacy import registry
from stream_app.privacy.mechanism import Mechanism
from tests.producers.journals import TOPIC

DAY = 86_400.0
TODAY = 20_000
SCOPE = np.arange(12, dtype=np.uint64)
CELL, LOUD, RR = (registry.parse(id) for id in ("cell:5:1/2", "cell:5:60", "rr:5:1/2"))
INTAKE = wire.Intake({m.id: m.alphabet for m in (CELL, LOUD, RR)})


@dataclass
class HandClock:
    """A clock that a wait moves forward by exactly the time that was asked for."""

    at: float = TODAY * DAY

    def now(self) -> float:
        return self.at

    def wait(self, seconds: float, files: Sequence[int]) -> None:
        self.at += seconds


@dataclass
class Broker:
    """A broker in memory, which may be away or refuse; `seen` is what an observer sees."""

    clock: HandClock
    away: bool = False
    refusal: str = ""
    seen: list[tuple[float, bytes, int, bytes]] = field(default_factory=list)  # time, key, seq
    waiting: list[tuple[bytes, bytes, Any]] = field(default_factory=list)
    connected: int = 0

    def connect(self) -> Broker:
        if self.away:
            raise UserError("no Kafka answers")
        self.connected += 1
        self.waiting = []
        return self

    def produce(self, topic: str, *, key: bytes, value: bytes, on_delivery: Any, **_: Any) -> None:
        assert topic == TOPIC
        self.waiting.append((key, value, on_delivery))

    def poll(self, timeout: float) -> int:
        if self.away:
            return 0
        waiting, self.waiting = self.waiting, []
        for key, value, report in waiting:
            if self.refusal:
                report(_Error(self.refusal), None)
                continue
            self.seen.append((self.clock.at, key, event(key, value).seq, value))
            report(None, None)
        return len(waiting)

    def flush(self, timeout: float) -> int:
        self.poll(timeout)
        return len(self.waiting)

    @property
    def outside(self) -> list[tuple[float, bytes, int, int]]:
        """What an observer sees of each message: moment, key, seq, size."""
        return [(at, key, seq, len(value)) for at, key, seq, value in self.seen]

    def cells(self) -> dict[tuple[bytes, int], list[int]]:
        """The reports by pseudonym and item, one for each draw; a message sent again is one."""
        found: dict[tuple[bytes, int], list[int]] = {}
        for value in dict.fromkeys(value for *_, value in self.seen):
            sent = event(None, value)
            for item, report in zip(sent.items.tolist(), sent.reports.tolist(), strict=True):
                found.setdefault((sent.device, item), []).append(report)
        return found


@dataclass
class _Error:
    text: str

    def str(self) -> str:
        return self.text

    def code(self) -> int:
        return KafkaError._MSG_TIMED_OUT


def event(key: bytes | None, value: bytes) -> wire.Event:
    """Decode a message as a worker does."""
    import msgspec

    key = key or msgspec.msgpack.decode(value)["device"].hex().encode()
    where = np.frombuffer(key, np.uint8).reshape(1, 32)
    return wire.decode(key, value, int(wire.partitions_of(where, 4)[0]), INTAKE)


@dataclass
class Device:
    """A journal with everything of a daemon around it."""

    journal: Journal
    daemon: Daemon
    broker: Broker
    clock: HandClock
    notices: list[str]

    def until(self, when: float) -> None:
        """Run until a time in seconds since 1970, from one moment of an account to the next."""
        self.daemon.step()
        while (coming := self.daemon._schedule.next) is not None and coming <= when:
            self.clock.at = max(coming, self.clock.at)
            self.daemon.step()
        self.clock.at = when
        self.daemon.step()

    def days(self, count: float) -> None:
        self.until(self.clock.at + count * DAY)


def device(
    journal: Journal,
    sources: Callable[[], Sequence[Source]] | Sequence[Source] = (),
    *,
    clock: HandClock | None = None,
    broker: Broker | None = None,
    mechanism: Mechanism = CELL,
    scope: Any = SCOPE,
    user: str | None = "ann",
    disk: Disk | None = None,
    **cells: Any,
) -> Device:
    """Build a daemon on an open journal, whose accounts are enrolled."""
    clock = clock or HandClock()
    broker = broker or Broker(clock)
    notices: list[str] = []
    identities = Identities(journal.key)
    ratings = KeptRatings(CleanHistory(journal.path, disk), identities, Scale(1, 5, 1), user)
    reporting = Reporting(
        ReportSettings(TOPIC, mechanism), None if scope is None else Cells(scope, **cells)
    )
    delivery = Delivery(journal, TOPIC, broker.connect, notices.append, lambda: clock.at)
    built = Daemon(
        journal, reporting, ratings, delivery, list(sources() if callable(sources) else sources),
        clock, notices.append,
    )  # fmt: skip
    return Device(journal, built, broker, clock, notices)


def pseudonym(journal: Journal, user: str) -> bytes:
    return Identities(journal.key).pseudonym(user)


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path

"""An edge's reporter in a test: a clock that stands, a recommender in memory, plain events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import count
from typing import Any

import msgspec
from sqlalchemy import select

from producers.edge.events.event import Event
from producers.edge.events.feedback_rows import FeedbackRows
from producers.edge.reporting.reporter import Reporter
from producers.edge.reporting.users import Users
from producers.edge.reporting.ways_out import ReportingOptions
from producers.edge.site_terms import SiteTerms
from producers.edge.store.database import Database
from producers.edge.store.store_tables import accounts
from producers.identities import Identities
from producers.journal import PersonBudget
from stream_app import wire
from stream_app.errors import UserError
from stream_app.privacy import registry

DAY = 86_400.0
TODAY = 20_000
TOPIC = "murmurec.ratings.v1"
RR, CELL = registry.parse("rr:5:1/2"), registry.parse("cell:5:1/2")
INTAKE = wire.Intake({m.id: m.alphabet for m in (RR, CELL)})
TERMS = SiteTerms(budget=PersonBudget(Fraction(20), Fraction(0)), mechanism=RR, report_seconds=1)


@dataclass
class Clock:
    at: float = TODAY * DAY + 3600

    def __call__(self) -> float:
        return self.at


@dataclass
class Recommender:
    """A broker in memory, which may be away or keep its delivery reports back; `seen`: the records
    in their order; `headers`: those of what it was given."""

    away: bool = False
    silent: bool = False
    seen: list[tuple[str, bytes, bytes]] = field(default_factory=list)  # topic, key, value
    waiting: list[tuple[str, bytes, bytes, Any]] = field(default_factory=list)
    connected: int = 0
    headers: list[list[tuple[str, bytes]]] = field(default_factory=list)

    def connect(self) -> Recommender:
        if self.away:
            raise UserError("no Kafka answers")
        self.connected += 1
        self.waiting = []
        return self

    def produce(
        self, topic: str, *, key: bytes, value: bytes, headers: Any = None, on_delivery: Any
    ) -> None:
        self.waiting.append((topic, key, value, on_delivery))
        self.headers.append(headers)

    def poll(self, timeout: float) -> int:
        if self.away:
            return 0
        waiting, self.waiting = self.waiting, []
        for topic, key, value, report in waiting:
            self.seen.append((topic, key, value))
            if not self.silent:
                report(None, None)
        return len(waiting)

    def flush(self, timeout: float) -> int:
        self.poll(timeout)
        return len(self.waiting)

    def events(self) -> list[wire.Event]:
        return [decoded(value) for topic, _, value in self.seen if topic == TOPIC]

    def reports(self) -> dict[tuple[bytes, int], list[int]]:
        """The reports by pseudonym and item, one for each draw: a message sent again is one."""
        found: dict[tuple[bytes, int], list[int]] = {}
        for value in dict.fromkeys(value for topic, _, value in self.seen if topic == TOPIC):
            sent = decoded(value)
            for item, report in zip(sent.items.tolist(), sent.reports.tolist(), strict=True):
                found.setdefault((sent.device, item), []).append(report)
        return found

    def check_numbers(self) -> None:
        """No number of a device stands for two contents, and each first comes in its order."""
        known: dict[tuple[str, bytes, int], bytes] = {}
        newest: dict[tuple[str, bytes], int] = {}
        for topic, key, value in self.seen:
            seq = msgspec.msgpack.decode(value)["seq"]
            assert known.setdefault((topic, key, seq), value) == value
            if seq > newest.get((topic, key), 0):
                assert seq == newest.get((topic, key), 0) + 1
                newest[topic, key] = seq


def decoded(value: bytes) -> wire.Event:
    """Decode a record as a worker does."""
    import numpy as np

    key = msgspec.msgpack.decode(value)["device"].hex().encode()
    where = np.frombuffer(key, np.uint8).reshape(1, 32)
    return wire.decode(key, value, int(wire.partitions_of(where, 4)[0]), INTAKE)


@dataclass
class Edge:
    """A reporter over a store, stepped by hand."""

    database: Database
    recommender: Recommender
    clock: Clock
    terms: SiteTerms
    options: ReportingOptions
    notices: list[str] = field(default_factory=list)
    _stamp: Any = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        self.rows = FeedbackRows(self.database, self.terms.feedback, signed=self.terms.signed)
        options = replace(self.options, topic=TOPIC, connect=self.recommender.connect)
        self.reporter = Reporter(
            self.database, self.terms, options,
            notice=self.notices.append, now=self.clock, steady=self.clock,
        )  # fmt: skip
        self.users = Users(self.database, self.reporter, self.terms, self.clock)

    def done(self, user: str, *items: str, type: str = "like") -> None:
        """Take one event of a user on each of the items."""
        at = int(self.clock.at * 1000)
        self.rows.write([Event(user, item, type, None, at + next(self._stamp)) for item in items])

    def steps(self, seconds: float = 10, pause: float = 1) -> None:
        """Step until so many seconds have passed."""
        end = self.clock.at + seconds
        while self.clock.at < end:
            self.reporter.step()
            self.clock.at += pause

    def device(self, user: str) -> bytes:
        return Identities(self.database.key, signed=self.terms.signed).pseudonym(user)

    @property
    def names(self) -> list[str]:
        with self.database.reading() as connection:
            return list(connection.scalars(select(accounts.c.user)))


def edge(
    database: Database,
    recommender: Recommender | None = None,
    clock: Clock | None = None,
    options: ReportingOptions | None = None,
    **terms: Any,
) -> Edge:
    return Edge(
        database,
        recommender or Recommender(),
        clock or Clock(),
        replace(TERMS, **terms),
        options or ReportingOptions(),
    )


def key(item: str) -> int:
    return wire.key(wire.parse_item(item))


def keys(items: Sequence[str]) -> set[int]:
    return {key(item) for item in items}

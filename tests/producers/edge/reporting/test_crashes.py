"""An edge ends at any operation on its store or its line: nothing is drawn again, overspent, lost.

A life ends at its n-th operation; the next one takes the same events again and does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from producers.edge.events.event import Event
from producers.edge.store.book_log import BOOKS
from producers.edge.store.database import Database
from producers.journal import PersonBudget
from tests.fixtures.postgres import Server, postgres
from tests.fixtures.waiting import until
from tests.producers.edge.reporting.operations import Crash, Operations, crashing_at
from tests.producers.edge.reporting.world import Clock, Edge, Recommender, edge, keys

__all__ = ["postgres"]
BUDGET = PersonBudget(Fraction(2), Fraction(0))  # four reports of 1/2
ITEMS = {"ann": "abcdef", "bob": "abc", "cleo": "d"}


@dataclass
class MortalLine(Recommender):
    """A recommender whose every call may be the edge's last."""

    operations: Operations | None = None

    def produce(self, topic: str, *, key: bytes, value: bytes, on_delivery: Any, **_: Any) -> None:
        self._happens()
        super().produce(topic, key=key, value=value, on_delivery=on_delivery)

    def poll(self, timeout: float) -> int:
        waiting, self.waiting = self.waiting, []
        for topic, key, value, report in waiting:
            self.seen.append((topic, key, value))
            self._happens()
            report(None, None)
        return len(waiting)

    def _happens(self) -> None:
        if self.operations is not None:
            self.operations.happens()


@contextmanager
def life(address: str, line: MortalLine, clock: Clock, crash_at: int) -> Iterator[Edge]:
    """Give an edge that took its books and ends at an operation; 0: never."""
    database = Database(address)
    operations = line.operations = Operations(database, crashing_at(crash_at))
    try:
        run = edge(database, line, clock, budget=BUDGET)
        run.steps(2)
        # The server holds the books of the life before until it notices that its sessions ended.
        until(lambda: run.reporter.status().books == BOOKS or run.steps(5), "every book")
        operations.on = True
        yield run
        operations.on = False
        run.reporter.stop()
        database.close()
    finally:
        operations.end()
        line.waiting = []


def check(run: Edge) -> None:
    """All that the budgets hold was reported, each item in one draw, and it is what was paid."""
    reports = run.recommender.reports()
    assert all(len(draws) == 1 for draws in reports.values())
    for user, items in ITEMS.items():
        own = {item for device, item in reports if device == run.device(user)}
        assert own <= keys(items)
        assert len(own) == min(4, len(items))
        (line,) = run.users.show(user).budget.spent
        assert (line.reports, line.epsilon) == (len(own), len(own) / 2)
    run.recommender.check_numbers()
    assert run.reporter.status().waiting == 0


def rated(run: Edge) -> None:
    """Take the same events in every life: their times are their tokens."""
    times = count(int(Clock().at * 1000))
    for part, seconds in ((slice(2), 2), (slice(2, None), 3)):
        for user, items in ITEMS.items():
            events = [Event(user, item, "like", None, next(times)) for item in items[part]]
            run.rows.write(events)
        run.steps(seconds)


def operations_of(address: str) -> int:
    """Return how many operations a life has that is not disturbed."""
    clock, line = Clock(), MortalLine()
    with life(address, line, clock, -1) as run:
        rated(run)
        assert line.operations is not None
        return line.operations.count


def crash(address: str, *places: int) -> None:
    """End lives at these places, one after the other; the last one does the rest."""
    clock, line = Clock(), MortalLine()
    for place in places:
        with suppress(Crash), life(address, line, clock, place) as run:
            rated(run)
    with life(address, line, clock, 0) as run:
        rated(run)
        run.steps(4)
        check(run)


@pytest.fixture
def file(tmp_path: Path) -> Callable[[], str]:
    number = count()
    return lambda: f"sqlite:///{tmp_path}/{next(number)}.db"


def test_a_crash_at_some_operations_on_sqlite(
    file: Callable[[], str], rng: np.random.Generator
) -> None:
    whole = operations_of(file())
    assert whole > 50
    for place in rng.choice(whole, 3, replace=False).tolist():
        crash(file(), place + 1)


@pytest.mark.thorough
@pytest.mark.nightly
def test_a_crash_at_every_operation_on_sqlite(file: Callable[[], str]) -> None:
    for place in range(operations_of(file())):
        crash(file(), place + 1)


@pytest.mark.thorough
def test_two_crashes_on_sqlite(file: Callable[[], str], rng: np.random.Generator) -> None:
    whole = operations_of(file())
    for places in rng.integers(1, whole + 1, (15, 2)).tolist():
        crash(file(), *places)


@pytest.mark.nightly
def test_crashes_on_postgresql(postgres: Server, rng: np.random.Generator) -> None:
    whole = operations_of(postgres.database())
    for places in rng.integers(1, whole + 1, (10, 2)).tolist():
        crash(postgres.database(), *places)

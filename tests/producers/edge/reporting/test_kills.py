"""An edge is killed by SIGKILL during its commits, and so is PostgreSQL: nothing is lost, drawn
again, or overspent."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from producers.edge.store.database import Database
from tests.fixtures.postgres import Server, postgres
from tests.producers.edge.reporting.lives import MOST, USERS, plan, received, rest
from tests.producers.edge.reporting.world import edge, key

__all__ = ["postgres"]
KILLS = 100


def begun(folder: Path, store: str, seed: int, kills: int, name: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.producers.edge.reporting.lives"]
    given = [str(folder), store, str(seed), str(kills), name]
    return subprocess.Popen([*command, *given], stdout=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str]) -> int:
    printed, _ = process.communicate(timeout=600)
    assert process.returncode == 0
    return int(printed)


def check(folder: Path, store: str, *names: str) -> None:
    """Every rating that the budgets hold was reported, in one draw, and it is what was paid."""
    events = [event for name in names for tick in plan(name) for event in tick]
    rest(folder, store)
    with Database(store) as database:
        run = edge(database, received(folder / "broker"))
        reports = run.recommender.reports()
        assert all(len(draws) == 1 for draws in reports.values())
        for user in {event.user for event in events}:
            rated = {key(event.item) for event in events if event.user == user}
            own = {item for device, item in reports if device == run.device(user)}
            assert own <= rated
            assert len(own) == min(MOST, len(rated))
            found = run.users.show(user)
            assert found.events == sum(event.user == user for event in events)
            (line,) = found.budget.spent
            assert (line.reports, line.epsilon) == (len(own), len(own) / 2)
        assert len(run.names) <= USERS
        run.recommender.check_numbers()
        run.reporter.stop()


@pytest.mark.thorough
def test_kills_on_sqlite(tmp_path: Path, seed: int) -> None:
    store = f"sqlite:///{tmp_path}/edge.db"
    assert ended(begun(tmp_path, store, seed, KILLS, "one")) > KILLS // 2
    check(tmp_path, store, "one")


@pytest.mark.nightly
def test_kills_of_edges_and_of_sessions_on_postgresql(
    postgres: Server, tmp_path: Path, seed: int
) -> None:
    store = postgres.database()
    edges = [begun(tmp_path, store, seed + n, KILLS, name) for n, name in enumerate(("one", "two"))]
    killed = [ended(each) for each in edges]
    print("killed", killed)
    assert sum(killed) > KILLS // 4
    check(tmp_path, store, "one", "two")

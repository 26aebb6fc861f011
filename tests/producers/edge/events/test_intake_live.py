"""Intakes under load: killed processes, and two edges on one PostgreSQL."""

from __future__ import annotations

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from producers.edge.events.event import Event
from producers.edge.events.intake import Intake
from producers.edge.store.database import Database
from producers.edge.store.store_tables import accounts, feedback
from tests.fixtures.postgres import Server, postgres
from tests.fixtures.waiting import PATIENCE_SECONDS
from tests.producers.edge.stores import NOW, Terms, happened, rows

__all__ = ["postgres"]
pytestmark = pytest.mark.thorough

PROGRAM = """
import sys
from concurrent.futures import ThreadPoolExecutor
from producers.edge.events.intake import Intake
from producers.edge.store.database import Database
from tests.producers.edge.stores import Terms, happened
first = int(sys.argv[2])
with Database(sys.argv[1]) as database:
    intake = Intake(database, Terms())
    def call(number):
        intake.take([happened(user=f"user {number % 50}", item=f"item {number}")]).result()
        sys.stdout.write(f"{number}\\n")
        sys.stdout.flush()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(call, range(first, first + 100_000)))
"""


def test_what_was_answered_outlives_a_kill_and_counts_once(
    store_path: Path, rng: np.random.Generator
):
    address = f"sqlite:///{store_path}"
    answered: set[int] = set()
    for life in range(3):
        first = max(0, len(answered) - 20) if life else 0  # some are sent again
        with subprocess.Popen(
            [sys.executable, "-c", PROGRAM, address, str(first)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            for _ in range(int(rng.integers(1, 400))):
                answered.add(int(process.stdout.readline()))
            process.send_signal(signal.SIGKILL)
            answered |= {int(line) for line in process.stdout if line.endswith("\n")}
    with Database(address) as database:
        found = [row.item for row in rows(database, feedback)]
        assert len(found) == len(set(found))
        assert {f"item {number}" for number in answered} <= set(found)
        for account in rows(database, accounts):
            own = [row.number for row in rows(database, feedback) if row.account == account.number]
            assert account.changed == max(own, default=0)


def test_two_edges_take_the_same_events_once(postgres: Server, rng: np.random.Generator):
    address = postgres.database()
    events = [
        happened(user=f"user {user}", item=f"item {item}", at=NOW + n)
        for n, (user, item) in enumerate(rng.integers(0, 30, (1_200, 2)))
    ]
    keyed = [Event(f"user {n % 30}", "hat", "like", None, NOW + n, f"key {n}") for n in range(240)]
    with Database(address) as one, Database(address) as two:
        intakes = [Intake(one, Terms()), Intake(two, Terms())]

        def both(part: int) -> int:
            futures = [
                intake.take(events[part * 10 : part * 10 + 10] + keyed[part * 2 : part * 2 + 2])
                for intake in intakes
            ]
            return sum(sum(future.result(PATIENCE_SECONDS)) for future in futures)

        with ThreadPoolExecutor(8) as pool:
            new = sum(pool.map(both, range(120)))
        for intake in intakes:
            intake.close()
        assert new == len(rows(one, feedback)) == 1_200 + 240
        for account in rows(one, accounts):
            own = [row.number for row in rows(one, feedback) if row.account == account.number]
            assert account.changed == max(own)

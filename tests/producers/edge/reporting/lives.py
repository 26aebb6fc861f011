"""Lives of an edge, each a process that is killed: `python -m ... FOLDER STORE SEED KILLS NAME`.

A life takes the events of a plan, tick by tick, and steps its reporter. It kills itself (SIGKILL)
at a random operation: a statement, a commit, a message that the broker takes. On PostgreSQL it may
kill the process of its session instead, and goes on. The last life is not killed; a life that is
not killed ends when all is reported. Two edges share store and broker and differ by NAME; what is
left once both have ended, `rest` reports.

    broker   what the broker has received, one line a record: topic, key, value
"""

from __future__ import annotations

import os
import random
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from producers.edge.events.event import Event
from producers.edge.reporting import accounts
from producers.edge.store.book_log import BOOKS
from producers.edge.store.database import Database
from producers.journal import PersonBudget
from stream_app.errors import UserError
from tests.fixtures.waiting import until
from tests.producers.edge.reporting.operations import Operations
from tests.producers.edge.reporting.world import DAY, TODAY, Clock, Edge, Recommender, edge

USERS, ITEMS, TICKS, MOST = 12, 9, 40, 6  # MOST reports fit a budget
BUDGET = PersonBudget(Fraction(MOST, 2), Fraction(0))


def plan(name: str) -> list[list[Event]]:
    """Return the events of an edge by tick; the items of a user differ by edge."""
    chosen = random.Random(name)
    at = TODAY * int(DAY) * 1000
    return [
        [
            Event(f"u{n}", f"{name}-{chosen.randrange(ITEMS)}", "like", None, at + 1000 * tick + n)
            for n in chosen.sample(range(USERS), 3)
        ]
        for tick in range(TICKS)
    ]


@dataclass
class FileBroker(Recommender):
    """A broker whose log is a file; its delivery reports can be lost with the life."""

    path: Path = Path("broker")
    step: Callable[[], None] = field(default=lambda: None)

    def poll(self, timeout: float) -> int:
        waiting, self.waiting = self.waiting, []
        for topic, key, value, report in waiting:
            self.step()
            line = f"{topic} {key.decode()} {value.hex()}\n".encode()
            handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(handle, line)
            os.close(handle)
            self.step()
            report(None, None)
        return len(waiting)


def received(path: Path) -> Recommender:
    """Return a recommender that has seen what the file holds."""
    found = Recommender()
    for line in path.read_text().splitlines():
        topic, key, value = line.split()
        found.seen.append((topic, key.encode(), bytes.fromhex(value)))
    return found


def live(folder: Path, store: str, name: str, chosen: random.Random, *, mortal: bool) -> None:
    """Run until all events are taken and reported."""
    database = _opened(store)
    left, kills_session = chosen.randrange(1, 400), chosen.random() < 0.5

    def step() -> None:
        nonlocal left
        left -= 1
        if mortal and left == 0:
            raws = [raw for raw in operations.raw if kills_session and not database.is_sqlite]
            raws = [raw for raw in raws if not raw.closed]
            if raws:
                # It is gone where the other edge killed one: the server ends all then.
                with suppress(ProcessLookupError):
                    os.kill(chosen.choice(raws).info.backend_pid, signal.SIGKILL)
            else:
                os.kill(os.getpid(), signal.SIGKILL)

    operations = Operations(database, step)
    operations.on = True
    broker = FileBroker(path=folder / "broker", step=step)
    run = edge(database, broker, Clock(), budget=BUDGET)
    for events in plan(name):
        _until_taken(run, events)
        run.steps(1)
    until(lambda: run.steps(1) or _all_left(run), "the reports", pause=0)
    run.reporter.stop()
    database.close()


def rest(folder: Path, store: str) -> None:
    """Report what is left, once every other edge has ended: this one holds every book."""
    with _opened(store) as database:
        run = edge(database, FileBroker(path=folder / "broker"), Clock(), budget=BUDGET)
        until(lambda: run.steps(5) or (_holds_all(run) and _all_left(run)), "the rest")
        run.reporter.stop()


def _holds_all(run: Edge) -> bool:
    return run.reporter.status().books == BOOKS


def _all_left(run: Edge) -> bool:
    """Whether nothing is to be reported, and nothing waits in a book of this edge."""
    status = run.reporter.status()
    known = status.books + status.books_elsewhere == BOOKS
    return known and not status.waiting and not _due(run)


def _opened(store: str) -> Database:
    for _ in range(200):
        try:
            return Database(store)
        except UserError:  # the server recovers
            signal.sigtimedwait([], 0.05)
    return Database(store)


def _until_taken(run: Edge, events: list[Event]) -> None:
    for _ in range(200):
        try:
            run.rows.write(events)
            return
        except UserError:  # the store recovers
            run.steps(1)
            signal.sigtimedwait([], 0.05)
    raise AssertionError("the store did not come back")


def _due(run: Edge) -> bool:
    try:
        with run.database.reading() as connection:
            return bool(accounts.due_books(connection))
    except UserError:
        return True


def main(folder: Path, store: str, seed: int, kills: int, name: str) -> int:
    """Kill lives until so many kills; then let one live. Return how many were killed."""
    chosen, killed = random.Random(seed), 0
    for number in range(kills + 1):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                live(folder, store, name, random.Random(f"{seed} {number}"), mortal=number < kills)
                code = 0
            except BaseException:  # noqa: BLE001 (a forked life must not return into its parent)
                traceback.print_exc()
            os._exit(code)
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            killed += 1
        else:
            assert os.waitstatus_to_exitcode(status) == 0, number
    chosen.random()
    return killed


if __name__ == "__main__":
    _, place, address, number, most, named = sys.argv
    print(main(Path(place), address, int(number), int(most), named))

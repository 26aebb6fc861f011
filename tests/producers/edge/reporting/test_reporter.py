"""What leaves the site: each item once, within the budget, under the numbers of one journal."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from producers.daemon.cells import Cells
from producers.daemon.schedule import moment
from producers.edge.reporting import accounts
from producers.edge.reporting.ways_out import ReportingOptions
from producers.edge.store.book_log import BOOKS
from producers.edge.store.database import Database
from producers.journal import PersonBudget
from stream_app.errors import OlderJournal
from tests.producers.edge.reporting.world import (
    CELL,
    DAY,
    TODAY,
    Clock,
    Recommender,
    edge,
    key,
    keys,
)


class BrokenLine(Recommender):
    def connect(self):
        raise ZeroDivisionError("a defect")


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with Database(f"sqlite:///{tmp_path}/edge.db") as opened:
        yield opened


def test_what_users_do_is_reported_once(database):
    run = edge(database)
    run.done("ann", "a", "b")
    run.done("bob", "b", "7")
    run.steps()
    run.done("ann", "a", "c")
    run.steps()
    ann, bob = run.device("ann"), run.device("bob")
    wanted = {(ann, k) for k in keys("abc")} | {(bob, k) for k in keys("b7")}
    assert run.recommender.reports().keys() == wanted
    assert all(len(reports) == 1 for reports in run.recommender.reports().values())
    status = run.reporter.status()
    assert (status.books, status.books_elsewhere, status.accounts) == (BOOKS, 0, 2)
    assert (status.reports, status.messages, status.waiting) == (5, 3, 0)
    with database.reading() as connection:
        assert accounts.due_books(connection) == set()
    assert status.conditions == ()
    run.recommender.check_numbers()
    run.reporter.stop()


def test_what_was_only_seen_is_not_reported(database):
    from producers.edge.events.feedback_types import FeedbackTypes
    from producers.scale import Scale

    run = edge(database, feedback=FeedbackTypes.parse({"glance": "seen"}, Scale()))
    run.done("ann", "a", type="glance")
    run.done("ann", "b")
    run.steps()
    assert run.recommender.reports().keys() == {(run.device("ann"), key("b"))}
    run.reporter.stop()


def test_an_exhausted_budget_is_shown_and_what_is_left_is_reported_when_it_frees(database):
    run = edge(database, budget=PersonBudget(Fraction(1), Fraction(0), window=30))
    run.done("ann", "a", "b", "c")  # two reports of 1/2 fit
    run.steps()
    assert len(run.recommender.reports()) == 2
    assert run.reporter.status().exhausted == 1
    assert any("budget of accounts (1)" in each for each in run.reporter.status().conditions)
    assert run.users.show("ann").budget.reports_left == 0
    run.clock.at += 31 * DAY
    run.steps()
    assert len(run.recommender.reports()) == 3
    assert run.reporter.status().exhausted == 0
    run.reporter.stop()


def test_a_budget_that_frees_while_the_edge_is_off_is_noticed_at_its_start(database):
    run = edge(database, budget=PersonBudget(Fraction(1), Fraction(0), window=30))
    run.done("ann", "a", "b", "c")
    run.steps()
    run.reporter.stop()
    run.clock.at += 31 * DAY
    again = edge(
        database, run.recommender, run.clock,
        budget=PersonBudget(Fraction(1), Fraction(0), window=30),
    )  # fmt: skip
    again.steps()
    assert len(run.recommender.reports()) == 3
    again.reporter.stop()


def test_a_recommender_that_is_away_for_a_day_loses_nothing(database):
    run = edge(database)
    run.recommender.away = True
    run.done("ann", "a")
    run.steps(60)
    assert run.recommender.seen == []
    assert any("no Kafka answers" in each for each in run.reporter.status().conditions)
    assert run.users.show("ann").budget is None  # nothing was drawn, and no account made
    run.recommender.away = False
    run.steps(60)
    run.recommender.away = True
    for hour in range(24):
        run.done("ann", f"item-{hour}")
        run.steps(3600, 600)
    assert run.reporter.status().waiting > 0
    run.recommender.away = False
    run.steps(60)
    assert len(run.recommender.reports()) == 25
    assert run.reporter.status().waiting == 0
    run.recommender.check_numbers()
    run.reporter.stop()


def test_a_full_outbox_keeps_events_for_later(database):
    run = edge(database, options=ReportingOptions(outbox_bytes=400))
    run.steps(2)
    run.recommender.silent = True
    for number in range(20):
        run.done("ann", f"item-{number}")
        run.steps(2)
    assert any("wait for the broker" in each for each in run.reporter.status().conditions)
    run.recommender.silent = False
    run.recommender.away = True
    run.reporter.stop()
    run.recommender.away = False
    again = edge(database, run.recommender, run.clock)
    again.steps(40)
    assert len(run.recommender.reports()) == 20
    run.recommender.check_numbers()
    again.reporter.stop()


def test_a_clock_that_was_set_back_reports_nothing_and_says_so(database):
    run = edge(database)
    run.done("ann", "a")
    run.steps()
    run.clock.at -= 3 * DAY
    run.reporter.wake()
    run.done("ann", "b")
    run.steps()
    assert len(run.recommender.reports()) == 1
    assert any("set the clock right" in each for each in run.reporter.status().conditions)
    run.clock.at += 3 * DAY
    run.steps()
    assert len(run.recommender.reports()) == 2
    assert run.reporter.status().conditions == ()
    run.reporter.stop()


def test_a_clock_far_ahead_reports_nothing_and_says_so(database):
    run = edge(database)
    run.done("ann", "a")
    run.steps()
    run.clock.at += 400 * DAY
    run.done("ann", "b")
    run.steps()
    assert len(run.recommender.reports()) == 1
    assert any("correct the clock" in each for each in run.reporter.status().conditions)
    run.reporter.stop()


def test_an_older_copy_of_the_store_releases_nothing(database):
    def check(journals):
        raise OlderJournal("the topic holds later events")

    run = edge(database, options=ReportingOptions(check=check))
    run.done("ann", "a")
    run.steps()
    assert run.recommender.seen == []
    assert any("later events" in each for each in run.reporter.status().conditions)
    run.reporter.stop()


def test_messages_wait_in_the_store_until_they_are_confirmed(database):
    run = edge(database)
    run.recommender.silent = True
    run.done("ann", "a")
    run.steps()
    first = list(run.recommender.seen)
    assert len(first) == 1
    run.recommender.away = True
    run.reporter.stop()
    run.recommender.away = run.recommender.silent = False
    again = edge(database, run.recommender, run.clock)
    again.steps()
    assert run.recommender.seen == [*first, *first]  # the same bytes
    (tag,), (same,) = run.recommender.headers
    assert (tag, len(tag[1])) == (same, 16)
    assert again.reporter.status().waiting == 0
    again.reporter.stop()


def test_a_book_that_was_not_written_is_opened_again(database):
    run = edge(database)
    run.recommender.silent = True
    run.done("ann", "a")
    run.steps(3)
    first = list(run.recommender.seen)
    full = [True]

    @event.listens_for(database.engine, "before_cursor_execute")
    def refusing(_connection, _cursor, statement, *_):
        if full[0] and statement.startswith("INSERT INTO frames"):
            raise OperationalError("", {}, sqlite3.OperationalError("database or disk is full"))

    run.done("ann", "b")
    run.steps(3)
    assert any("the disk is full" in each for each in run.reporter.status().conditions)
    assert run.reporter.status().books == BOOKS - 1
    full[0] = run.recommender.silent = False
    run.steps(10)
    assert (run.reporter.status().books, run.reporter.status().accounts) == (BOOKS, 1)
    assert run.recommender.seen[:2] == first * 2  # it waited, and was sent again
    assert len(run.recommender.reports()) == 2
    assert run.reporter.status().conditions == ()
    run.recommender.check_numbers()
    run.reporter.stop()


def test_a_user_whom_another_edge_deleted_reports_at_no_moment(database):
    scope = np.array(sorted(keys("abc")), np.uint64)
    options = ReportingOptions(cells=Cells(scope))
    run = edge(database, options=options, mechanism=CELL)
    run.done("ann", "a")
    run.steps(6)
    at = moment(run.device("ann"), TODAY + 1, DAY).at
    run.clock.at = at - 1
    run.reporter.step()
    edge(database, clock=run.clock, options=options, mechanism=CELL).users.delete("ann")
    run.clock.at = at + 1  # before the next look at accounts
    run.reporter.step()
    assert run.recommender.seen == []
    assert run.users.show("ann").budget.withdrawn_day is None
    run.steps(10)
    assert run.users.show("ann").budget.withdrawn_day == TODAY + 1
    run.reporter.stop()


def test_presence_is_hidden_by_the_schedule(database):
    """Two users, one of whom did nothing but exist: the same number of cells on the same days."""
    scope = np.array(sorted(keys([str(n) for n in range(12)])), np.uint64)
    run = edge(database, options=ReportingOptions(cells=Cells(scope)), mechanism=CELL)
    run.done("ann", "3", "4")
    run.done("bob", "elsewhere")
    run.steps(120, 30)
    assert run.recommender.seen == []  # they report after the day on which they were enrolled
    for at in sorted(moment(run.device(user), TODAY + 1, DAY).at for user in ("ann", "bob")):
        run.clock.at = at
        run.steps(2)
    found = run.recommender.reports()
    assert {device for device, _ in found} == {run.device("ann"), run.device("bob")}
    assert len(found) == 24
    assert all(len(reports) == 1 for reports in found.values())
    run.reporter.stop()


def test_accounts_of_a_signed_site_sign(database):
    run = edge(database, signed=True)
    run.done("ann", "a")
    run.steps()
    assert len(run.recommender.seen) == 1
    assert run.recommender.seen[0][1] == run.device("ann").hex().encode()
    run.reporter.stop()


def test_the_thread_reports_and_ends(database):
    from tests.fixtures.waiting import until

    run = edge(database, clock=Clock())
    run.done("ann", "a")
    run.reporter.start()
    until(lambda: run.recommender.seen, "a report")
    assert run.reporter.status().running
    run.reporter.stop()
    assert not run.reporter.status().running
    assert run.reporter.status().books == 0


def test_a_defect_ends_the_thread_and_is_raised_at_the_end(database):
    from tests.fixtures.waiting import until

    run = edge(database, BrokenLine())
    run.reporter.start()
    until(lambda: run.reporter.failure is not None, "the defect")
    with pytest.raises(ZeroDivisionError):
        run.reporter.stop()


def test_an_error_is_not_hidden_by_a_connection_that_is_lost_with_it(database):
    def lost(block):
        with block() as connection:
            connection.connection.driver_connection.close()
            raise ZeroDivisionError

    for block in (database.reading, database.writing):
        with pytest.raises(ZeroDivisionError):
            lost(block)

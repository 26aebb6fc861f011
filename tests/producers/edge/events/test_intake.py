"""Events are durable before the answer, count once, and are not taken where the store refuses."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import event, update

from producers.edge.events.event import Event
from producers.edge.events.feedback_rows import FeedbackRows
from producers.edge.events.feedback_types import FeedbackTypes
from producers.edge.events.intake import Busy, Intake
from producers.edge.store import database as store
from producers.edge.store.book_log import BOOKS
from producers.edge.store.database import Database
from producers.edge.store.store_tables import accounts, feedback, impressions, offers
from producers.identities import Identities
from producers.scale import Scale
from stream_app.errors import Unwritable, UserError
from tests.fixtures.waiting import PATIENCE_SECONDS, until
from tests.producers.edge.stores import NOW, Terms, full, happened, locked, rows


@pytest.fixture
def intake(database: Database) -> Iterator[Intake]:
    opened = Intake(database, Terms())
    yield opened
    opened.close()


def take(intake: Intake, *events: Event) -> list[bool]:
    return intake.take(events).result(PATIENCE_SECONDS)


def test_an_event_makes_its_account_and_its_row(database: Database, intake: Intake):
    assert take(intake, happened(value=2.5)) == [True]
    (account,) = rows(database, accounts)
    device = Identities(database.key).pseudonym("ann")
    assert (account.user, account.device) == ("ann", device)
    assert account.book == int.from_bytes(device[:2], "big") % BOOKS
    (row,) = rows(database, feedback)
    assert (row.account, row.item, row.type, row.value) == (account.number, "shoe", "view", 2.5)
    assert (row.stars, row.likes, row.at) == (None, 0.3, NOW)
    assert (account.changed, account.reported) == (row.number, 0)


def test_an_event_counts_once_however_often_it_comes(database: Database, intake: Intake):
    keyed = happened(item="hat", key="order 7")
    assert take(intake, happened(), happened(), keyed) == [True, False, True]
    again = happened(user="bob", item="cap", key="order 7")
    assert take(intake, again, happened(), happened(item="sock")) == [False, False, True]
    assert len(rows(database, feedback)) == 3


def test_events_count_once_after_a_new_start(database: Database, store_path: Path):
    for expected in (True, False):
        intake = Intake(database, Terms())
        assert take(intake, happened()) == [expected]
        intake.close()


def test_stars_likes_and_seen_are_what_the_table_says(database: Database):
    types = FeedbackTypes.parse({"note": "seen"}, Scale(0, 10, 1))
    intake = Intake(database, Terms(types))
    take(intake, happened(type="note"))
    assert rows(database, accounts)[0].changed == 0  # nothing to report
    take(intake, happened(type="purchase", value=99.9), happened(type="rating", value=10.0))
    intake.close()
    found = {row.type: (row.value, row.stars, row.likes) for row in rows(database, feedback)}
    assert found == {
        "note": (None, None, None),
        "purchase": (99.9, 5.0, None),
        "rating": (10.0, 5.0, None),
    }
    assert rows(database, accounts)[0].changed == 3


def test_signed_devices_have_other_pseudonyms(database: Database):
    intake = Intake(database, Terms(signed=True))
    take(intake, happened())
    intake.close()
    assert rows(database, accounts)[0].device == Identities(database.key, signed=True).pseudonym(
        "ann"
    )


def test_many_callers_share_commits_and_each_gets_its_own_answer(
    database: Database, intake: Intake, rng: np.random.Generator
):
    commits = []
    event.listen(database.engine, "commit", commits.append)
    items = [str(item) for item in rng.integers(0, 40, 400)]
    with ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(lambda item: take(intake, happened(item=item)), items))
    assert sum(new for (new,) in answers) == len(set(items)) == len(rows(database, feedback))
    assert len(commits) < 400
    assert intake.waiting == 0


def test_ten_thousand_events_of_as_many_users_are_one_request(database: Database, intake: Intake):
    events = [happened(user=f"user {n}") for n in range(10_000)]
    assert all(take(intake, *events))
    assert len(rows(database, accounts)) == 10_000
    with pytest.raises(UserError, match="at most 10,000"):
        intake.take([*events, happened()])


def test_a_click_and_a_purchase_mark_the_list_once(database: Database, intake: Intake):
    with database.writing() as connection:
        shown = {"list": "l1", "account": 1, "model": "local", "at": NOW}
        connection.execute(impressions.insert(), [shown])
        places = [{"list": "l1", "place": n, "item": item} for n, item in enumerate("abc")]
        connection.execute(offers.insert(), places)
    take(intake, happened(item="a", type="click", at=5, list="l1"))
    take(intake, happened(item="a", type="click", at=9, list="l1"))
    take(intake, happened(item="b", type="purchase", at=7, list="l1"))
    take(intake, happened(item="c", type="like", list="l1"), happened(item="c", type="click"))
    take(intake, happened(item="z", type="click", list="l1"))
    take(intake, happened(item="a", type="click", at=3, list="another"))
    marks = [(row.item, row.clicked, row.bought) for row in sorted(rows(database, offers))]
    assert marks == [("a", 5, None), ("b", 7, 7), ("c", None, None)]


def test_what_was_deleted_stays_deleted_and_a_later_event_brings_the_user_back(
    database: Database, intake: Intake
):
    take(intake, happened(at=100))
    with database.writing() as connection:  # as a deletion does
        connection.execute(feedback.delete())
        connection.execute(update(accounts).values(removed=200))
    assert take(intake, happened(at=100), happened(at=150)) == [False, False]
    assert rows(database, accounts)[0].removed == 200
    assert take(intake, happened(at=300), happened(at=120)) == [True, False]
    (account,) = rows(database, accounts)
    assert account.removed is None
    assert account.changed == rows(database, feedback)[0].number


def test_nothing_is_taken_on_a_full_disk_and_it_goes_on_afterwards(
    database: Database, intake: Intake
):
    take(intake, happened())
    events = [happened(item=f"item {n}") for n in range(2_000)]
    with full(database), pytest.raises(Unwritable, match="disk is full; free some space"):
        take(intake, *events)
    assert len(rows(database, feedback)) == 1
    assert all(take(intake, *events))


def test_nothing_is_taken_while_another_program_writes(
    database: Database, intake: Intake, store_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with database.engine.connect() as connection:  # else it waits for five seconds
        connection.exec_driver_sql("PRAGMA busy_timeout = 10")
    with locked(store_path), pytest.raises(Unwritable, match="another program writes"):
        take(intake, happened())
    assert rows(database, feedback) == []
    assert take(intake, happened()) == [True]


def test_every_caller_of_a_commit_that_failed_gets_the_sentence(database: Database, intake: Intake):
    with full(database):
        events = [[happened(user=f"{caller} {n}") for n in range(500)] for caller in range(8)]
        answers = [intake.take(each) for each in events]
        refusals = {str(answer.exception(PATIENCE_SECONDS)) for answer in answers}
    assert len(refusals) == 1
    assert rows(database, feedback) == []


def test_a_queue_that_is_full_refuses_and_empties(database: Database):
    intake = Intake(database, Terms(), most_waiting=10)
    with database.writing():  # the writer waits for this transaction
        first = intake.take([happened(item=str(n)) for n in range(8)])
        second = intake.take([happened(item="a"), happened(item="b")])
        with pytest.raises(Busy, match="send them again in a second"):
            intake.take([happened(item="c")])
        assert intake.waiting == 10
    assert first.result(PATIENCE_SECONDS) == [True] * 8
    assert second.result(PATIENCE_SECONDS) == [True] * 2
    until(lambda: intake.waiting == 0, "the queue is empty")
    assert take(intake, happened(item="c")) == [True]
    intake.close()
    with pytest.raises(Busy, match="ending"):
        intake.take([happened()])
    assert len(rows(database, feedback)) == 11


def test_what_waits_is_written_before_the_end(database: Database):
    intake = Intake(database, Terms())
    answers = [intake.take([happened(item=str(n))]) for n in range(100)]
    intake.close()
    assert all(answer.result(0) == [True] for answer in answers)


def test_a_caller_that_has_gone_ends_nothing(database: Database, intake: Intake):
    with database.writing():
        first = intake.take([happened()])
        until(first.running, "the first is being written")
        gone = intake.take([happened(item="hat")])
        assert gone.cancel()
    assert first.result(PATIENCE_SECONDS) == [True]
    assert not first.cancel()
    assert take(intake, happened(item="cap")) == [True]
    assert intake.waiting == 0 or until(lambda: intake.waiting == 0, "nothing waits") is None
    assert len(rows(database, feedback)) == 2


def test_a_defect_leaves_nobody_waiting(database: Database, monkeypatch: pytest.MonkeyPatch):
    seen = []
    monkeypatch.setattr(threading, "excepthook", seen.append)
    intake = Intake(database, Terms())
    answer = intake.take([happened(type="not in the table")])
    assert isinstance(answer.exception(PATIENCE_SECONDS), KeyError)
    until(lambda: seen, "the thread has ended")
    with pytest.raises(Busy):
        intake.take([happened()])
    intake.close()


class _CutError(Exception):
    pass


@pytest.mark.parametrize("statements", range(1, 6))
def test_a_crash_between_two_statements_leaves_nothing(database: Database, statements: int):
    writer = FeedbackRows(database, FeedbackTypes(), signed=False)
    writer.write([happened(user="bob")])
    events = [happened(item="a", type="click", list="l1"), happened(user="bob", item="b")]
    left = statements

    def cut(*_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise _CutError

    event.listen(database.engine, "before_cursor_execute", cut)
    with suppress(_CutError):
        writer.write(events)
    event.remove(database.engine, "before_cursor_execute", cut)
    assert left == 0
    assert len(rows(database, feedback)) == 1
    assert writer.write(events) == [True, True]
    for account in rows(database, accounts):
        own = [row.number for row in rows(database, feedback) if row.account == account.number]
        assert account.changed == max(own)


def test_the_store_waits_for_a_lock_for_a_bounded_time():
    assert 0 < store._BUSY_SECONDS <= 10

"""What a person may ask of the site: what it holds and what left it, a copy, and deletion.

A deletion removes the events, the clean history and the lists that were shown, at once, and takes
the name from the account. From its commit on, no edge of the store shows what it counted before in
any list (`DELETIONS`). What stays is the account itself, by its pseudonym: its budget, because
what was spent stays spent, and the keys of the items that were reported, so that nothing is
reported twice. The account is withdrawn: nothing more is released, until the user acts again after
the deletion. Then the pseudonym is the same, which HMAC makes of the same name, and the budget goes
on where it was. Nothing from before can be released then: it is gone.

What was sent lies with the recommender, and the site cannot take it back. The recommender is asked
to forget the device where the site may ask (`ReportingOptions.forget`), after all that was released
has arrived; until it was asked nothing new is reported. Otherwise the receipt says what to give its
operator.

Of a book that this edge writes its journal is asked; of one that another edge writes the frames in
the store are read, as they are now.

The answers are sent over HTTP as they are. Times are milliseconds since 1970 in UTC; days are since
1970. Spending is for life, by what the epsilon protects: epsilons of different adjacencies do not
add.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any

import msgspec
import numpy as np
from sqlalchemy import Connection, Row, Table, delete, func, select, update

from producers.edge.lists.stored_history import history
from producers.edge.reporting.reporter import Reporter
from producers.edge.site_terms import SiteTerms
from producers.edge.store.book_log import BookLog
from producers.edge.store.database import Database
from producers.edge.store.store_tables import DELETIONS, accounts, feedback, impressions, offers
from producers.identities import Identities
from producers.journal import ATTO, NANO, Journal, Limits
from producers.pseudonyms import encoded
from stream_app.errors import UserError
from stream_app.privacy.randomness import SystemSource
from stream_app.wire import EPOCH_SECONDS


class BudgetLine(msgspec.Struct, frozen=True):
    """What was spent under one adjacency, on so many reports."""

    adjacency: str
    protects: str
    epsilon: float
    delta: float
    reports: int


class BudgetRecord(msgspec.Struct, frozen=True):
    """The (epsilon, delta) of the whole person in any window of days, and what was spent.

    `reports_left` under the site's mechanism, None without a limit.
    """

    epsilon: float | None
    delta: float
    window_days: int | None
    plan: str
    enrolled_day: int
    withdrawn_day: int | None
    spent: list[BudgetLine]
    mechanism: str
    reports_left: int | None


class TopicLine(msgspec.Struct, frozen=True):
    """Messages that left for one topic: numbered from 1, `confirmed` by the broker, or waiting for
    it. The numbers are the receipt: the recommender counts each once."""

    topic: str
    messages: int
    confirmed: int
    waiting: int


class DoneEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """An event of the user."""

    item: str
    type: str
    at: int
    value: float | None = None


class HistoryLine(msgspec.Struct, frozen=True):
    """An item of the clean history, its stars on 1 .. 5, and whether a report on it left."""

    item: str
    stars: float | None
    at: int | None
    reported: bool


class UserRecord(msgspec.Struct, frozen=True):
    """What the site holds of a user, and what left it; `removed`: when the user was deleted."""

    pseudonym: str
    created: int
    removed: int | None
    forget_since: int | None
    events: int
    lists: int
    history: list[HistoryLine]
    budget: BudgetRecord | None
    left_the_site: list[TopicLine]


class UserExport(msgspec.Struct, frozen=True):
    """What the site holds of a user, and every event, to take along."""

    user: str
    record: UserRecord
    events: list[DoneEvent]


class AccountLine(msgspec.Struct, frozen=True):
    """One account in a list of them."""

    user: str
    pseudonym: str
    created: int
    removed: int | None
    events: int
    budget: BudgetRecord | None


class DeletionReceipt(msgspec.Struct, frozen=True):
    """What a deletion did: removed here, kept here, sent before, and asked upstream.

    `upstream` is "nothing" (nothing had left), "sums" (contributions alone, which cannot be taken
    out), "asked" (as soon as what was released before has arrived there) or "operator" (only its
    operator may write that: give him the pseudonym).
    """

    pseudonym: str
    at: int
    events_removed: int
    lists_removed: int
    kept: str
    budget: BudgetRecord | None
    left_the_site: list[TopicLine]
    upstream: str
    upstream_sentence: str


_KEPT = (
    "the pseudonym with its budget, because what was spent stays spent, and the keys of items that "
    "were reported, so that none is reported twice; nothing is released until the user acts again"
)
_PROTECTS = {
    "value": "how an item was rated; that it was met is public",
    "cell": "whether an item was met, and how it was rated",
    "user": "that a person took part, and all that he did",
    "event": "one event",
    "nothing": "nothing",
}
_UPSTREAM = {
    "nothing": "nothing of this user had left the site",
    "sums": "contributions are part of noisy sums, from which nobody can take one out",
    "asked": "the recommender is asked to forget the pseudonym, once all that was sent has arrived",
    "operator": (
        "only the operator of the recommender can forget what was sent: give him the pseudonym "
        "(murmurec forget --device PSEUDONYM)"
    ),
}


class UnknownUser(UserError):
    """The site holds nothing of this user."""


class Users:
    """Answers about users; from any thread."""

    def __init__(
        self,
        database: Database,
        reporter: Reporter,
        terms: SiteTerms,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._database, self._reporter, self._terms, self._now = database, reporter, terms, now

    def show(self, user: str) -> UserRecord:
        """Return what the site holds of a user and what left it; `UnknownUser`."""
        with self._database.reading() as connection:
            return self._record(connection, self._account(connection, user))

    def export(self, user: str) -> UserExport:
        """Return everything that the site holds of a user, to take along; `UnknownUser`."""
        with self._database.reading() as connection:
            account = self._account(connection, user)
            wanted = (
                select(feedback)
                .where(feedback.c.account == account.number)
                .order_by(feedback.c.at, feedback.c.number)
            )
            events = [
                DoneEvent(row.item, row.type, row.at, row.value)
                for row in connection.execute(wanted)
            ]
            return UserExport(_name(user), self._record(connection, account), events)

    def accounts(self, count: int) -> list[AccountLine]:
        """Return the newest accounts, at most so many."""
        found: dict[int, AccountLine] = {}
        with self._database.reading() as connection:
            newest = select(accounts).order_by(accounts.c.number.desc()).limit(count)
            rows = sorted(connection.execute(newest), key=lambda row: (row.book, row.number))
            for book, own in groupby(rows, key=lambda row: row.book):
                with self._journal(book) as journal:
                    budgets = [(row, self._budget(journal, row.device)) for row in own]
                for row, budget in budgets:
                    name = row.user if row.removed is None else ""
                    events = _count(connection, feedback, row.number)
                    found[row.number] = AccountLine(
                        name, row.device.hex(), row.created, row.removed, events, budget
                    )
        return [found[number] for number in sorted(found, reverse=True)]

    def delete(self, user: str) -> DeletionReceipt:
        """Delete a user; see the module. `UnknownUser`; deleting again changes nothing more.

        On return it is durable, and what the reporter releases from now on holds nothing of it.
        """
        at = int(self._now() * 1000)
        with self._reporter.books.lock, self._database.writing() as connection:
            account = self._account(connection, user, held=True)
            with self._journal(account.book) as journal:
                budget = self._budget(journal, account.device)
                sent = self._sent(journal, account.device)
            upstream = self._upstream(sent)
            events, lists = _removed(connection, account.number)
            if events or lists:
                self._database.retag(connection, DELETIONS)
            values = {"user": None, "removed": at, "changed": 0, "reported": 0}
            if upstream == "asked" and account.removed is None:
                values["forget"] = at
            own = accounts.c.number == account.number
            connection.execute(update(accounts).where(own).values(values))
        self._database.scrub()
        self._reporter.wake()
        pseudonym = account.device.hex()
        return DeletionReceipt(
            pseudonym=pseudonym,
            at=at,
            events_removed=events,
            lists_removed=lists,
            kept=_KEPT,
            budget=budget,
            left_the_site=sent,
            upstream=upstream,
            upstream_sentence=_UPSTREAM[upstream].replace("PSEUDONYM", pseudonym),
        )

    def _upstream(self, sent: Sequence[TopicLine]) -> str:
        options = self._reporter.options
        if any(each.messages for each in sent if each.topic == options.topic):
            return "operator" if options.forget is None else "asked"
        return "sums" if any(each.messages for each in sent) else "nothing"

    def _account(self, connection: Connection, user: str, *, held: bool = False) -> Row[Any]:
        device = Identities(self._database.key, signed=self._terms.signed).pseudonym(_name(user))
        wanted = select(accounts).where(accounts.c.device == device)
        account = connection.execute(wanted.with_for_update() if held else wanted).one_or_none()
        if account is None:
            raise UnknownUser("this site holds nothing of such a user; check the id")
        return account

    @contextmanager
    def _journal(self, number: int) -> Iterator[Journal]:
        """Give the journal of a book, to be read while the block lasts."""
        books = self._reporter.books
        with books.lock:
            if number in books:
                yield books[number].journal
                return
        log = BookLog(self._database, number, held=False)
        yield Journal(log, Limits(), SystemSource(), 0, test=False)

    def _budget(self, journal: Journal, device: bytes) -> BudgetRecord | None:
        """Return the terms of an account and what it has spent; None before it was enrolled."""
        terms = journal.enrolment(device)
        if terms is None:
            return None
        budget, mechanism = terms.budget, self._terms.mechanism
        return BudgetRecord(
            epsilon=None if budget.epsilon is None else float(budget.epsilon),
            delta=float(budget.delta),
            window_days=budget.window,
            plan=budget.plan,
            enrolled_day=terms.epoch,
            withdrawn_day=terms.withdrawn or None,
            spent=[
                BudgetLine(
                    adjacency=each.adjacency,
                    protects=_PROTECTS.get(each.adjacency, each.adjacency),
                    epsilon=each.nano / NANO,
                    delta=each.atto / ATTO,
                    reports=each.reports,
                )
                for each in journal.spent(device).values()
            ],
            mechanism=mechanism.id,
            reports_left=journal.room(device, mechanism, int(self._now() // EPOCH_SECONDS)),
        )

    def _sent(self, journal: Journal, device: bytes) -> list[TopicLine]:
        """Return how many messages went to each topic, and how many of them wait for the broker."""
        waiting = [message.topic for message in journal.pending() if message.device == device]
        lines = []
        for topic in self._reporter.deliveries:
            messages, left = journal.seq(device, topic), waiting.count(topic)
            lines.append(TopicLine(topic, messages, messages - left, left))
        return lines

    def _record(self, connection: Connection, account: Row[Any]) -> UserRecord:
        rated = history(connection, account.number)
        with self._journal(account.book) as journal:
            keys = np.array([row.key for row in rated], np.uint64)
            reported = journal.reports(account.device, keys) > 0
            budget = self._budget(journal, account.device)
            sent = self._sent(journal, account.device)
        return UserRecord(
            pseudonym=account.device.hex(),
            created=account.created,
            removed=account.removed,
            forget_since=account.forget,
            events=_count(connection, feedback, account.number),
            lists=_count(connection, impressions, account.number),
            history=[
                HistoryLine(
                    f"{row.item}", row.stars, None if row.at is None else 1000 * row.at, left
                )
                for row, left in zip(rated, reported.tolist(), strict=True)
            ],
            budget=budget,
            left_the_site=sent,
        )


def _name(user: str) -> str:
    """Return a user's id as text; UserError for what is none."""
    try:
        return encoded(user).decode()
    except ValueError as error:
        raise UserError(str(error)) from None


def _count(connection: Connection, table: Table, account: int) -> int:
    wanted = select(func.count()).select_from(table).where(table.c.account == account)
    return connection.execute(wanted).scalar_one()


def _removed(connection: Connection, account: int) -> tuple[int, int]:
    """Remove the events and the lists of an account; return how many of each."""
    shown = select(impressions.c.list).where(impressions.c.account == account)
    connection.execute(delete(offers).where(offers.c.list.in_(shown)))
    lists = connection.execute(delete(impressions).where(impressions.c.account == account))
    events = connection.execute(delete(feedback).where(feedback.c.account == account))
    return events.rowcount, lists.rowcount

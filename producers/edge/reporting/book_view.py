"""An account as its book shows it: terms, budget spent, what was sent.

Of a book that this edge writes its journal is asked; of one that another edge writes the frames in
the store are read, as they are now.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from producers.edge.reporting.outbox import OpenBooks
from producers.edge.reporting.user_records import BudgetLine, BudgetRecord, TopicLine
from producers.edge.store.book_log import read_frames
from producers.edge.store.database import Database
from producers.journal import ATTO, NANO, Journal, Limits
from producers.journal.frames import Kind
from producers.person.reports import Costing
from stream_app.errors import Unwritable
from stream_app.privacy.randomness import SystemSource

_PROTECTS = {
    "value": "how an item was rated; that it was met is public",
    "cell": "whether an item was met, and how it was rated",
    "user": "that a person took part, and all that he did",
    "event": "one event",
    "nothing": "nothing",
}


class ReadBook:
    """The frames of a book, to be read: a `FrameLog` that takes no record."""

    made, cut, unvouched, usable = False, 0, False, False

    def __init__(self, database: Database, number: int) -> None:
        self.path, self.key = Path(f"{database.name}#{number}"), database.key
        with database.reading() as connection:
            self.frames, _ = read_frames(connection, number)
        self.size = 0

    def append(self, records: Sequence[tuple[Kind, bytes]], *, durable: bool) -> None:  # noqa: ARG002
        """Refuse."""
        raise Unwritable(f"store {self.path}: was opened to be read; the edge that holds it writes")

    def replace(self, records: Sequence[tuple[Kind, bytes]]) -> None:
        """Refuse."""
        self.append(records, durable=True)

    def close(self) -> None:
        """Do nothing: nothing is held."""


@contextmanager
def journal_of(database: Database, books: OpenBooks, number: int) -> Iterator[Journal]:
    """Give the journal of a book, to be read while the block lasts."""
    with books.lock:
        held = books.get(number)
        if held is not None:
            yield held
            return
    yield Journal(ReadBook(database, number), Limits(), SystemSource(), 0, test=False)


def budget_of(journal: Journal, device: bytes, mechanism: Costing, day: int) -> BudgetRecord | None:
    """Return the terms of an account and what it has spent; None before it was enrolled."""
    terms = journal.enrolment(device)
    if terms is None:
        return None
    budget = terms.budget
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
        reports_left=journal.room(device, mechanism, day),
    )


def sent_of(journal: Journal, device: bytes, topics: Sequence[str]) -> list[TopicLine]:
    """Return how many messages went to each topic, and how many of them wait for the broker."""
    waiting = [message.topic for message in journal.pending() if message.device == device]
    lines = []
    for topic in topics:
        messages = journal.seq(device, topic)
        left = waiting.count(topic)
        lines.append(TopicLine(topic, messages, messages - left, left))
    return lines

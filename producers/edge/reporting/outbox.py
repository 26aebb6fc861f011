"""The messages of all open books as one outbox, so that one producer sends them.

    number here = number in the book's journal * BOOKS + book

A book that is given back or lost takes its messages with it: whoever opens it sends them. A
delivery report that comes later is dropped, and the message is sent again, with the same bytes.

`lock` guards the journals: the reporter holds it while it pays and draws, and whoever looks into an
account holds it meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import msgspec

from producers.edge.store.book_log import BOOKS
from producers.journal import Journal, Message


class OpenBooks:
    """The journals of the books that this edge writes, by number; a `delivery.Outbox`."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._journals: dict[int, Journal] = {}

    def put(self, number: int, journal: Journal) -> None:
        """Add an open book."""
        with self.lock:
            self._journals[number] = journal

    def drop(self, number: int) -> None:
        """Forget a book, which is closed by the caller."""
        with self.lock:
            self._journals.pop(number, None)

    def get(self, number: int) -> Journal | None:
        """Return the journal of a book; use it while the lock is held."""
        return self._journals.get(number)

    @staticmethod
    def numbered(book: int, messages: list[Message]) -> Iterator[Message]:
        """Yield messages of a book under the numbers that they have here."""
        for each in messages:
            yield msgspec.structs.replace(each, number=each.number * BOOKS + book)

    def pending(self) -> list[Message]:
        """Return what waits for the broker, oldest first in each book."""
        with self.lock:
            return [
                message
                for number, journal in self._journals.items()
                for message in self.numbered(number, journal.pending())
            ]

    def acknowledge(self, number: int) -> None:
        """Record that the broker has accepted a message."""
        with self.lock:
            journal = self._journals.get(number % BOOKS)
            if journal is not None:
                journal.acknowledge(number // BOOKS)

    @property
    def waiting(self) -> tuple[int, int]:
        """How many messages wait, and their bytes."""
        with self.lock:
            journals = list(self._journals.values())
            return sum(len(j.pending()) for j in journals), sum(j.waiting_bytes for j in journals)

"""The ways out of the site: where reports and contributions go, and the messages that wait for it.

A `connect` returns a producer once the topic was checked; UserError where the recommender is away.
One producer of a topic sends the messages of all open books:

    number here = number in the book's journal * BOOKS + book

A book that is given back or lost takes its messages with it: whoever opens it sends them. A
delivery report that comes later is dropped, and the message is sent again, with the same bytes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec.structs import replace

from producers.campaign.terms import Pinned
from producers.daemon.cells import Cells
from producers.daemon.delivery import Connect
from producers.device.item_means import ItemMeans, ItemTable
from producers.edge.store.book_log import BOOKS
from producers.journal import Journal, Message
from stream_app.campaigns.rounds import Rounds

if TYPE_CHECKING:
    from producers.edge.reporting.book import Book

OUTBOX_BYTES = 16 << 20  # of messages of a book that wait


@dataclass(frozen=True)
class CampaignOptions:
    """Taking part in campaigns: what is pinned, with the SHA-256 of its scope, and how the log of
    rounds is read (UserError where it cannot be)."""

    topic: str
    connect: Connect
    pinned: Pinned
    scope_digest: bytes
    rounds: Callable[[], Rounds]


@dataclass(frozen=True)
class ReportingOptions:
    """What a site may leave out.

    topic, connect   where reports go; None where none leave
    table     the public item table, for mechanisms with masks
    cells     the public scope, for mechanisms that protect presence, with its SHA-256
    check     given the journals of books that were opened, once the recommender was reached:
              raises `OlderJournal` where the topic holds later events than they know
    forget    asks the recommender to forget a device; UserError where it cannot be asked now.
              None: only its operator may, and is told the pseudonym
    """

    topic: str = ""
    connect: Connect | None = None
    table: ItemMeans = field(default_factory=ItemTable)
    cells: Cells | None = None
    scope_digest: bytes = b""
    campaigns: CampaignOptions | None = None
    check: Callable[[Sequence[Journal]], None] | None = None
    forget: Callable[[bytes], None] | None = None
    outbox_bytes: int = OUTBOX_BYTES

    @property
    def ways(self) -> dict[str, Connect]:
        """The topics to which something leaves, and their ways."""
        found = {} if self.connect is None else {self.topic: self.connect}
        if self.campaigns is not None:
            found[self.campaigns.topic] = self.campaigns.connect
        return found


class OpenBooks(dict[int, "Book"]):
    """The books that this edge writes, by number; a `producers.daemon.delivery.Outbox`.

    `lock` guards the journals: the reporter holds it while it pays and draws, and whoever looks
    into an account holds it meanwhile.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.RLock()

    def numbered(self, book: int, messages: Sequence[Message]) -> list[Message]:
        """Return messages of a book under the numbers that they have here."""
        return [replace(each, number=each.number * BOOKS + book) for each in messages]

    def pending(self) -> list[Message]:
        """Return what waits for the broker, oldest first in each book."""
        with self.lock:
            found = [self.numbered(each, self[each].journal.pending()) for each in self]
        return [message for messages in found for message in messages]

    def acknowledge(self, number: int) -> None:
        """Record that the broker has accepted a message."""
        with self.lock:
            if (book := self.get(number % BOOKS)) is not None:
                book.journal.acknowledge(number // BOOKS)

    def headers(self, message: Message) -> list[tuple[str, bytes]]:
        """Return the headers of the record of a message; none once its book was given back."""
        with self.lock:
            book = self.get(message.number % BOOKS)
            return [] if book is None else book.journal.headers(message)

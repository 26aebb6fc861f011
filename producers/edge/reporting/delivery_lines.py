"""The ways out of the site: reports, contributions, and the request to forget a device.

A topic has a `producers.daemon.delivery.Delivery` over the messages of all open books. A site may
have both, one, or none; what is released waits until the first was reached once.
"""

from __future__ import annotations

from collections.abc import Callable

from producers.daemon.conditions import Notice
from producers.daemon.delivery import Connect, Delivery
from producers.edge.reporting import accounts
from producers.edge.reporting.outbox import OpenBooks
from producers.edge.reporting.outlets import CampaignOptions
from producers.edge.store.database import Database
from producers.journal import Message

CLOSE_SECONDS = 5.0


class Lines:
    """The deliveries by topic. `topic`: that of reports, None where none leave."""

    def __init__(
        self,
        books: OpenBooks,
        reports: tuple[str, Connect | None],
        campaigns: CampaignOptions | None,
        notice: Notice,
        clock: Callable[[], float],
    ) -> None:
        topic, connect = reports
        wanted: list[tuple[str, Connect]] = [] if connect is None else [(topic, connect)]
        if campaigns is not None:
            wanted.append((campaigns.topic, campaigns.connect))
        self.topic = None if connect is None else topic
        self._by_topic = {name: Delivery(books, name, way, notice, clock) for name, way in wanted}
        self.contributions = None if campaigns is None else self._by_topic[campaigns.topic]

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics to which something leaves."""
        return tuple(self._by_topic)

    @property
    def reached(self) -> bool:
        """Whether the first was reached once, where there is one."""
        return all(each.connected for each in list(self._by_topic.values())[:1])

    @property
    def accepted(self) -> int:
        """How many messages were accepted."""
        return sum(each.accepted for each in self._by_topic.values())

    @property
    def complaints(self) -> list[str]:
        """Why something is not sent now."""
        return [each.complaint for each in self._by_topic.values() if each.complaint]

    def send(self, message: Message) -> None:
        """Send a message of an open book; one of another topic waits in its book."""
        if message.topic in self._by_topic:
            self._by_topic[message.topic].send(message)

    def serve(self) -> None:
        """Send what waits and take delivery reports."""
        for each in self._by_topic.values():
            each.serve()

    def close(self) -> None:
        """Wait a little for delivery reports."""
        for each in self._by_topic.values():
            each.close(CLOSE_SECONDS)


def forget_removed(database: Database, books: OpenBooks, forget: Callable[[bytes], None]) -> None:
    """Ask the recommender to forget the devices of removed users, in the open books, once all that
    was released for them is there: it would count again what comes later."""
    with database.reading() as connection:
        wanted = accounts.to_forget(connection)
    waiting = {message.device for message in books.pending()} if wanted else set()
    for book, device in wanted:
        if books.get(book) is not None and device not in waiting:
            forget(device)
            with database.writing() as connection:
                accounts.was_asked(connection, device)

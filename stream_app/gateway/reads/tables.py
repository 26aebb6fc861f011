"""GET /catalogue and GET /item-links: both topics followed in a thread, served from memory.

    topic items ---------entries-------> ServedCatalogue --+--> document of /catalogue
    topic item-links ----whole version--> item side -------+--> document of /item-links

A look asks for the offsets of each topic (one request) and reads what was appended. Between two
looks no consumer reads, so an idle topic costs a request every few seconds. Every look either ends
with new documents or changes none of them: a client never gets half a catalogue, nor a version of
the item side whose pages are not whole (`wire/public_tables.py`). The gateway starts without Kafka;
both are empty then, and /readyz has the reason.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Final

import structlog
from aiohttp import web
from confluent_kafka import Consumer, TopicPartition

from stream_app.errors import UserError
from stream_app.gateway.reads.catalogue_view import ServedCatalogue
from stream_app.kafka import clients
from stream_app.kafka.background_thread import BackgroundThread
from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_follower import TopicReader
from stream_app.ranking.compact_side import CompactSideError, decode_side
from stream_app.web.cached_document import Document, nothing_yet
from stream_app.web.refusals import refused
from stream_app.wire import Topics
from stream_app.wire.public_tables import TableReader

if TYPE_CHECKING:
    from stream_app.gateway.context import Gateway, Views

_SECONDS = 5.0

Learn = Callable[[bytes | None, bytes | None], None]


@dataclass(eq=False)
class Following:
    """A topic, and how far it was read; `learn` takes each record, `restart` forgets all of them.

    Use it in one thread.
    """

    connection: Connection
    topic: str
    learn: Learn
    restart: Callable[[], None]
    position: int = 0
    changed: bool = False
    """Whether anything was learned or forgotten since its user last set this to False."""
    _was_absent: bool = False

    def look(self, asking: Consumer) -> None:
        """Learn what was appended; `asking` only asks for offsets. A topic that is absent changes
        nothing.

        Raises UserError where the topic cannot be read; what was learned by then is not all, and
        the next look goes on there.
        """
        if self.topic not in clients.listed(asking, _SECONDS):
            self._was_absent = True
            return
        low, end = clients.offsets(asking, TopicPartition(self.topic, 0), _SECONDS)
        if end < self.position or low > self.position > 0 or self._was_absent:
            self.begin_again()
            self._was_absent = False
        if end == self.position:
            return
        with TopicReader(self.connection, self.topic) as reader:
            for batch in reader.batches(self.position):
                for message in batch:
                    self.learn(message.key(), message.value())
                    self.position = (message.offset() or 0) + 1
                self.changed = True
        # Compaction may have removed the last records.
        self.position = max(self.position, end)

    def begin_again(self) -> None:
        """Forget all that was read: the next look begins at the first record."""
        self.restart()
        self.position, self.changed = 0, True


class FollowedTable(Following):
    """A topic of a public table; `pages` holds what was read of it."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self.pages = TableReader()
        super().__init__(connection, topic, self._learn_page, self._forget_pages)

    def _learn_page(self, record_key: bytes | None, value: bytes | None) -> None:
        self.pages.learn(record_key, value)

    def _forget_pages(self) -> None:
        self.pages = TableReader()


log = structlog.get_logger()
TITLES: Final = web.AppKey("titles", ServedCatalogue)
"""What lists show of their items."""
_LOOK_SECONDS = 2.0
_READ_AGAIN_SECONDS = 60.0  # between two readings of a catalogue that is larger than what is served
_JOIN_SECONDS = 0.5
_FOREIGN = (
    "the item side is in another format: install the version of murmurec that the workers run"
)


class Looking:
    """One thread looks again and again, the event loop serves what it has found. A look that fails
    changes nothing, and is logged where it fails otherwise than the one before."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection, self._name = connection, name
        self._thread = BackgroundThread(name, self._run, self._fail)
        self._problem = ""
        self.defect: BaseException | None = None

    def look(self, asking: Consumer) -> None:
        """Read what was appended; `asking` asks for offsets. UserError where that fails."""
        raise NotImplementedError

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def end(self) -> None:
        """End the thread; one that waits for Kafka is not waited for."""
        self._thread.end()
        self._thread.join(_JOIN_SECONDS)

    async def following(self, _: web.Application) -> AsyncIterator[None]:
        """Look for the time that the application runs."""
        self.start()
        yield
        self.end()

    def check(self) -> None:
        """Raise RuntimeError where the thread has ended by a defect: a request shows it."""
        if self.defect is not None:
            raise RuntimeError(f"the thread of {self._name} has ended") from self.defect

    def _run(self) -> None:
        asking = clients.consumer(self._connection)
        while not self._thread.ended:
            self._poll_once(asking)
            self._thread.wait(_LOOK_SECONDS)
        asking.close()

    def _fail(self, defect: BaseException) -> None:
        self.defect = defect

    def _poll_once(self, asking: Consumer) -> None:
        problem = ""
        try:
            self.look(asking)
        except UserError as error:
            problem = str(error)
        # A look that waits for Kafka may outlast the gateway; its topics may be gone by then.
        if problem and problem != self._problem and not self._thread.ended:
            log.warning(f"gateway.{self._name}_not_read", problem=problem)
        self._problem = problem


class PublicTables(Looking):
    """The newest documents of both topics."""

    def __init__(self, connection: Connection, topics: Topics) -> None:
        super().__init__(connection, "tables")
        self._catalogue = ServedCatalogue()
        self.titles = self._catalogue
        self._items = Following(
            connection, topics.items, self._catalogue.learn, self._catalogue.restart
        )
        self._links = FollowedTable(connection, topics.item_links)
        self._read_again_time = monotonic()
        self.catalogue = Document.made(self._catalogue.page(), "application/json")
        self.item_links: Document | None = None
        self.is_foreign = False
        """Whether what was published is in a format that is not known here."""

    def look(self, asking: Consumer) -> None:
        """Read what was appended to both topics, and make the documents of it.

        Raises UserError where a topic cannot be read; the documents stay as they are.
        """
        items, links = self._items, self._links
        links.look(asking)
        if links.changed:
            self._take_side()
            links.changed = False
        if self._catalogue.lacking and monotonic() - self._read_again_time > _READ_AGAIN_SECONDS:
            self._read_again_time = monotonic()
            items.begin_again()
        items.look(asking)
        if items.changed:
            self.catalogue = Document.made(self._catalogue.page(), "application/json")
            items.changed = False

    def _take_side(self) -> None:
        """Serve the newest whole version; where none is, the earlier one stays."""
        version = self._links.pages.newest()
        if version is None:
            self.is_foreign = bool(self._links.pages.foreign)
            return
        try:
            side = decode_side(version.table)
        except CompactSideError as error:
            self.is_foreign = True
            log.warning("gateway.item_side_refused", problem=str(error))
            return
        document = Document.made(version.table, "application/octet-stream")
        if self.item_links is None or document.digest != self.item_links.digest:
            self._catalogue.rank_by(side)
            self._items.changed = True  # the same entries in another order
            self.item_links = document


def attach(app: web.Application, gateway: Gateway) -> Views:
    """Return both pages, and add the thread for the time that the application runs."""
    tables = PublicTables(gateway.connection, gateway.topics)

    async def catalogue(request: web.Request) -> web.Response:
        tables.check()
        return tables.catalogue.answer(request)

    async def item_links(request: web.Request) -> web.Response:
        tables.check()
        document = tables.item_links
        if document is not None:
            return document.answer(request)
        # Not an error: a browser would show one to each visitor of a page that waits.
        return refused(404, "foreign", _FOREIGN) if tables.is_foreign else nothing_yet()

    app[TITLES] = tables.titles
    app.cleanup_ctx.append(tables.following)
    return {"catalogue": catalogue, "itemLinks": item_links}

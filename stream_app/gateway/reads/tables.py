"""GET /catalogue and GET /item-links: both topics followed in a thread, served from memory.

    topic items ---------entries-------> ServedCatalogue --+--> document of /catalogue
    topic item-links ----whole version--> item side -------+--> document of /item-links

Every look either ends with new documents or changes none of them: a client never gets half a
catalogue, nor a version of the item side whose pages are not whole (`wire/public_tables.py`). The
gateway starts without Kafka; both are empty then, and /readyz has the reason.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from time import monotonic
from typing import TYPE_CHECKING, Final

import structlog
from aiohttp import web
from confluent_kafka import Consumer

from stream_app.errors import UserError
from stream_app.gateway.reads.catalogue import ServedCatalogue
from stream_app.gateway.reads.documents import Document, nothing_yet, parameters_refused
from stream_app.gateway.reads.following import Following
from stream_app.kafka import clients
from stream_app.kafka.background_thread import BackgroundThread
from stream_app.kafka.clients import Connection
from stream_app.ranking.compact_side import CompactSideError, decode_side
from stream_app.web.replies import refused
from stream_app.wire import Topics
from stream_app.wire.public_tables import TableReader

if TYPE_CHECKING:
    from stream_app.gateway.context import Gateway

log = structlog.get_logger()
TITLES: Final = web.AppKey("titles", ServedCatalogue)
"""What lists show of their items."""
_LOOK_SECONDS = 2.0
_READ_AGAIN_SECONDS = 60.0  # between two readings of a catalogue that is larger than what is served
_JOIN_SECONDS = 0.5
_FOREIGN = (
    "the item side is in another format: install the version of murmurec that the workers run"
)


class PublicTables:
    """The newest documents; one thread makes them, the event loop serves them."""

    def __init__(self, connection: Connection, topics: Topics) -> None:
        self._connection = connection
        self._catalogue, self._links = ServedCatalogue(), TableReader()
        self.titles = self._catalogue
        self._items = Following(
            connection, topics.items, self._catalogue.learn, self._catalogue.restart
        )
        self._pages = Following(connection, topics.item_links, self._learn_page, self._forget_pages)
        self._read_again_time = monotonic()
        self._thread = BackgroundThread("tables", self._run, self._fail)
        self._problem = ""
        self.defect: BaseException | None = None
        self.catalogue = Document.made(self._catalogue.page(), "application/json")
        self.item_links: Document | None = None
        self.is_foreign = False
        """Whether what was published is in a format that is not known here."""

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def end(self) -> None:
        """End the thread; one that waits for Kafka is not waited for."""
        self._thread.end()
        self._thread.join(_JOIN_SECONDS)

    def look(self, asking: Consumer) -> None:
        """Read what was appended to both topics, and make the documents of it.

        Raises UserError where a topic cannot be read; the documents stay as they are.
        """
        items, links = self._items, self._pages
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
        version = self._links.newest()
        if version is None:
            self.is_foreign = bool(self._links.foreign)
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

    def _learn_page(self, record_key: bytes | None, value: bytes | None) -> None:
        self._links.learn(record_key, value)

    def _forget_pages(self) -> None:
        self._links = TableReader()

    def _run(self) -> None:
        asking = clients.consumer(self._connection)
        while not self._thread.ended:
            self._poll_once(asking)
            self._thread.wait(_LOOK_SECONDS)
        asking.close()

    def _fail(self, defect: BaseException) -> None:
        self.defect = defect  # the views raise it: a request shows it

    def _poll_once(self, asking: Consumer) -> None:
        problem = ""
        try:
            self.look(asking)
        except UserError as error:
            problem = str(error)
        # A look that waits for Kafka may outlast the gateway; its topics may be gone by then.
        if problem and problem != self._problem and not self._thread.ended:
            log.warning("gateway.tables_not_read", problem=problem)
        self._problem = problem


def attach(app: web.Application, gateway: Gateway) -> None:
    """Add both pages, and the thread for the time that the application runs."""
    tables = PublicTables(gateway.connection, gateway.topics)

    async def following(_: web.Application) -> AsyncIterator[None]:
        tables.start()
        yield
        tables.end()

    async def catalogue(request: web.Request) -> web.Response:
        _check(tables)
        return parameters_refused(request) or tables.catalogue.answer(request)

    async def item_links(request: web.Request) -> web.Response:
        _check(tables)
        document = tables.item_links
        refusal = parameters_refused(request)
        if refusal is not None:
            return refusal
        if document is not None:
            return document.answer(request)
        # Not an error: a browser would show one to each visitor of a page that waits.
        return refused(404, "foreign", _FOREIGN) if tables.is_foreign else nothing_yet()

    app[TITLES] = tables.titles
    app.cleanup_ctx.append(following)
    app.router.add_get("/catalogue", catalogue)
    app.router.add_get("/item-links", item_links)


def _check(tables: PublicTables) -> None:
    if tables.defect is not None:
        raise RuntimeError("the thread of the tables has ended") from tables.defect

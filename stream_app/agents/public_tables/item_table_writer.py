"""Publishing the public tables of items: only the owner of the clock does, a few pages at a time.

The tables are derived from the state: a late page loses no data, and a new owner publishes every
page again. A record that Kafka refuses ends the process, as every refused write does.

The item table: the model's mean rating of every item, for devices that choose by it.

    mean_i = clip(mu + b_i, 1, 5)          code_i = round(50 (mean_i - 1)),  0 .. 200

Items are listed by their rows, `PAGE_ITEMS` to a page, one record a page in a compacted topic. A
page is written again when a code or an item in it has changed. The table is a function of
released reports, so it costs no epsilon; and a device that reads a false table sends less useful
reports, never less protected ones, because every choice it can make has the same epsilon.

The item side, for devices that rank by themselves:

    due?  --new version--> bytes, off the event loop --> pages --> manifest --> the other slot
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b

import faust
import numpy as np
import structlog
from confluent_kafka import Producer
from numpy.typing import NDArray

from stream_app.agents.crash_guard import crash_guard
from stream_app.agents.runtime import Runtime
from stream_app.errors import UserError
from stream_app.kafka.acknowledged_writer import AcknowledgedWriter
from stream_app.kafka.clients import Connection
from stream_app.kafka.table_versions import Versions, published
from stream_app.models.factorization.learner import Learner
from stream_app.ranking.compact_side import encode_side
from stream_app.ranking.item_side import ItemSide
from stream_app.wire import MEAN_CODES_PER_STAR, PAGE_ITEMS, ItemTablePage, encode_message
from stream_app.wire.public_tables import encode_table_record

log = structlog.get_logger()

_LOOK_SECONDS = 1.0  # between two looks for a new item side

NewestSide = Callable[[], ItemSide | None]


def attach_links(
    app: faust.App,
    runtime: Runtime,
    connection: Connection,
    producer: Producer,
    newest_side: NewestSide,
) -> None:
    """Write a newer item side at most every `item_links_seconds`, the first one at once, while this
    worker owns the clock."""
    topic, status = runtime.topics.item_links, runtime.status
    seconds = runtime.settings.item_links_seconds
    versions, owned, due_time = Versions(lambda: published(connection, topic)), False, 0.0
    newest: ItemSide | None = None  # the side that the topic holds, as far as this owner has looked
    writer = AcknowledgedWriter(producer, topic, status.fail_from_thread, "the item side")

    @app.timer(min(seconds, _LOOK_SECONDS))
    @crash_guard(status)
    async def publish_item_links() -> None:
        nonlocal versions, owned, due_time, newest
        if status.clock_owned != owned:
            versions = Versions(lambda: published(connection, topic))
            owned, newest = status.clock_owned, None
        side = newest_side()
        wanted = owned and time.monotonic() >= due_time and not runtime.state_reason()
        if wanted and side is not None and len(side) and newest is not side:
            due_time = time.monotonic() + seconds
            try:
                loop = asyncio.get_running_loop()
                found = await loop.run_in_executor(
                    None, lambda: versions.due(encode_side(side), side.version)
                )
                newest = side
            except UserError as error:
                # The broker may be down; the rights were checked at the start.
                log.warning("item_links.unreadable", reason=str(error))
                found = []
            if found and status.clock_owned:  # it may have passed to another worker meanwhile
                for record in found:
                    writer.send(key=record.key, value=encode_table_record(record))
                log.info("item_links.written", cut=side.version, items=len(side))
        writer.poll()


_PAGES = 16  # compared per turn: 65,536 items, a few ms


def attach(app: faust.App, runtime: Runtime, producer: Producer) -> None:
    """Write changed pages every `item_table_seconds` while this worker owns the clock."""
    pages = ItemTablePages()
    owned = False

    writer = AcknowledgedWriter(
        producer, runtime.topics.item_table, runtime.status.fail_from_thread, "a page"
    )

    @app.timer(runtime.settings.item_table_seconds)
    @crash_guard(runtime.status)
    async def publish_item_table() -> None:
        nonlocal pages, owned
        if runtime.status.clock_owned != owned:
            pages, owned = ItemTablePages(), runtime.status.clock_owned
        replica = runtime.replica
        if owned and len(replica.items) and not runtime.state_reason():
            for page in pages.due(replica.items.keys, replica.learner, replica.cut, _PAGES):
                writer.send(key=str(page.page).encode(), value=encode_message(page))
        writer.poll()


_LOWEST, _HIGHEST = 1.0, 5.0


def mean_codes(learner: Learner, keys: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Return the code of each item's mean rating, (n,) uint8."""
    _, biases = learner.items(keys)
    means = np.clip(learner.mean + biases.astype(np.float64), _LOWEST, _HIGHEST)
    return np.rint((means - _LOWEST) * MEAN_CODES_PER_STAR).astype(np.uint8)


@dataclass
class ItemTablePages:
    """Digests of the pages as last written; `due` yields those that have changed."""

    _written: list[bytes] = field(default_factory=list)
    _next: int = 0

    def due(
        self, keys: NDArray[np.uint64], learner: Learner, cut: int, most: int
    ) -> Iterator[ItemTablePage]:
        """Yield up to `most` pages with changed codes, looking at each page in turn."""
        count = -(-len(keys) // PAGE_ITEMS)
        self._written += [b""] * (count - len(self._written))
        for page in ((self._next + step) % count for step in range(min(count, most))):
            part = keys[page * PAGE_ITEMS : (page + 1) * PAGE_ITEMS]
            items = part.astype("<u8", copy=False).tobytes()
            codes = mean_codes(learner, part).tobytes()
            digest = blake2b(items + codes, digest_size=16).digest()
            if digest != self._written[page]:
                self._written[page] = digest
                yield ItemTablePage(page, cut, items, codes)
        self._next = (self._next + most) % count if count > most else 0

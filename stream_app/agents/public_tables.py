"""Publishing the public tables of items: only the owner of the clock does, a few pages at a time.

The tables are derived from the state: a late page loses no data, and a new owner publishes every
page again. A record that Kafka refuses ends the process, as every refused write does.

The item table: the model's mean rating of every item, for devices that choose by it.

    mean_i = clip(mu + b_i, 1, 5)          code_i = round(50 (mean_i - 1)),  0 .. 200

Items are listed by their rows, `PAGE_ITEMS` to a page, one record a page in a compacted topic. A
page is written again when a code or an item in it has changed. The table is a function of
released reports, so it costs no epsilon; and a device that reads a false table sends less useful
reports, never less protected ones, because every choice it can make has the same epsilon.

The item side, for devices that rank by themselves; and that of a campaign.

    due?  --new version--> bytes, off the event loop --> pages --> manifest --> the other slot
    state: plan, stages released, side --> bytes --differs from the topic--> pages, manifest

A version goes to the slot that does not hold the newest whole version, so a reader always finds one
whole. A new owner of the clock reads from the topic which slot that is.

What is published of a campaign stands in the cut log as noisy sums and has taken effect in the
state, so no reader has a side that a replica could lose. The owner publishes before it takes the
next step of a campaign: a later plan never overtakes the side of the one before, which stays in the
topic until a stage of the later one is released. An owner that is killed in between leaves the step
to the next.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from math import inf

import faust
import numpy as np
import structlog
from confluent_kafka import Producer
from numpy.typing import NDArray

from stream_app.agents.crash_guard import crash_guard
from stream_app.agents.runtime import Runtime
from stream_app.campaigns.public_side import PublicSide, PublishedSide, encode_published
from stream_app.errors import UserError
from stream_app.kafka.acknowledged_writer import AcknowledgedWriter
from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_follower import records
from stream_app.models.factorization.learner import Learner
from stream_app.ranking.compact_side import encode_side
from stream_app.ranking.item_side import ItemSide
from stream_app.state.campaigns.progress import CampaignProgress
from stream_app.wire import MEAN_CODES_PER_STAR, PAGE_ITEMS, ItemTablePage, encode_message
from stream_app.wire.public_tables import (
    NEWEST_RECORDS,
    SLOTS,
    TableReader,
    TableRecord,
    TableVersion,
    encode_table_record,
    table_digest,
    table_records,
)


@dataclass
class Versions:
    """One object for each time that the clock is owned.

    `published` returns the newest whole version in the topic, None for none. Versions are compared
    by their bytes: a state that was rebuilt without a device has another table at the same cut.
    """

    published: Callable[[], TableVersion | None]
    _digest: bytes = b""
    _slot: int = -1
    _asked: bool = field(default=False)

    def due(self, table: bytes, cut: int) -> list[TableRecord]:
        """Return the records of a version that the topic lacks; blocks for reads.

        Raises ValueError for a table that is larger than a reader takes.
        """
        if not self._asked:
            newest, self._asked = self.published(), True
            if newest is not None:
                self._digest, self._slot = table_digest(newest.table), newest.slot
        digest = table_digest(table)
        if digest == self._digest:
            return []
        slot = (self._slot + 1) % SLOTS
        found = list(table_records(table, cut, slot))
        self._digest, self._slot = digest, slot
        return found

    def look_again(self) -> None:
        """Read the topic before the next version: another writer may have changed it."""
        self._digest, self._asked = b"", False


def published(connection: Connection, topic: str) -> TableVersion | None:
    """Return the newest whole version in the topic, None where none is."""
    reader = TableReader()
    for message in records(connection, topic, newest=NEWEST_RECORDS):
        reader.learn(message.key(), message.value())
    return reader.newest()


def write(
    writer: AcknowledgedWriter,
    version: list[TableRecord],
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> None:
    """Send the records of a version; returns when they are durable."""
    for number, record in enumerate(version):
        progress(number, len(version))
        writer.send_patiently(key=record.key, value=encode_table_record(record))
    writer.wait()


log = structlog.get_logger()

_TOPIC_LOOK_SECONDS = 30.0  # between two looks at what the topic holds


@dataclass
class SidePublisher:
    """Writes the side of a standing unless the topic holds it; one object for each time that the
    clock is owned. `write` returns when the records are durable."""

    versions: Versions
    write: Callable[[list[TableRecord]], None]
    now: Callable[[], float] = time.monotonic
    _seen: PublicSide | None = None
    _looked: float = -inf

    def publish(self, standing: CampaignProgress, cut: int) -> None:
        """Bring the topic to the side of the plan in force; raises UserError where the topic cannot
        be read or written, and the next call tries again.

        The side of an earlier plan was published before the present one began.
        """
        side, plan = standing.side, standing.plan
        if side is None or plan is None or side.number != plan.number:
            return
        again = self.now() - self._looked >= _TOPIC_LOOK_SECONDS
        if side is self._seen and not again:
            return
        if again:
            # A former owner may have been stopped in the middle of a write, and gone on since.
            self.versions.look_again()
            self._looked = self.now()
        found = PublishedSide.of_campaign(plan, standing.released, side)
        try:
            records = self.versions.due(encode_published(found), cut)
            if records:
                self.write(records)
        except ValueError as error:
            log.warning("item_side.unpublished", number=side.number, reason=str(error))
        except BaseException:
            self.versions.look_again()
            raise
        else:
            if records:
                log.info("item_side.written", number=side.number, released=standing.released)
        self._seen = side


def publisher(connection: Connection, topic: str) -> SidePublisher:
    """Return a publisher to a topic."""
    writer = AcknowledgedWriter.connect(connection, topic, "the side of a campaign")
    return SidePublisher(
        Versions(lambda: published(connection, topic)), lambda version: write(writer, version)
    )


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

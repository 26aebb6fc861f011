"""Publishing the item side, for devices that rank by themselves: the owner of the clock alone.

    due?  --new version--> bytes, off the event loop --> pages --> manifest --> the other slot

A version goes to the slot that does not hold the newest whole version, so a reader always finds one
whole. A new owner reads from the topic which slot that is. Everything is derived from the state: a
late or lost version loses no data. A record that Kafka refuses ends the process, as every refused
write does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import faust
import structlog
from confluent_kafka import Producer

from stream_app.agents.crash_guard import crash_guard
from stream_app.agents.runtime import Runtime
from stream_app.errors import UserError
from stream_app.kafka.acknowledged_writer import AcknowledgedWriter
from stream_app.kafka.clients import Connection
from stream_app.kafka.compacted import records
from stream_app.ranking.compact_side import encode_side
from stream_app.ranking.item_side import ItemSide
from stream_app.wire.item_links import (
    NEWEST_RECORDS,
    SLOTS,
    LinksReader,
    LinksRecord,
    LinksVersion,
    encode_links,
    links_digest,
    links_records,
)

log = structlog.get_logger()

_LOOK_SECONDS = 1.0  # between two looks for a new item side

NewestSide = Callable[[], ItemSide | None]


@dataclass
class LinksVersions:
    """Which version is due and where it goes; one object for each time that the clock is owned.

    `published` returns the newest whole version in the topic, None for none. Versions are compared
    by their bytes: a state that was rebuilt without a device has another item side at the same cut.
    """

    published: Callable[[], LinksVersion | None]
    _digest: bytes = b""
    _slot: int = -1
    _side: ItemSide | None = None
    _asked: bool = field(default=False)

    def due(self, side: ItemSide) -> list[LinksRecord]:
        """Return the records of a version that the topic lacks; blocks for reads and encoding."""
        if not self._asked:
            newest, self._asked = self.published(), True
            if newest is not None:
                self._digest, self._slot = links_digest(newest.table), newest.slot
        table = encode_side(side)
        digest, self._side = links_digest(table), side
        if digest == self._digest:
            return []
        self._digest, self._slot = digest, (self._slot + 1) % SLOTS
        return list(links_records(table, side.version, self._slot))

    def is_newest(self, side: ItemSide) -> bool:
        """Return whether the topic holds this side, as far as this object has looked at one."""
        return self._side is side


def attach(
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
    versions, owned, due_time = LinksVersions(lambda: published(connection, topic)), False, 0.0
    writer = AcknowledgedWriter(producer, topic, status.fail_from_thread, "the item side")

    @app.timer(min(seconds, _LOOK_SECONDS))
    @crash_guard(status)
    async def publish_item_links() -> None:
        nonlocal versions, owned, due_time
        if status.clock_owned != owned:
            versions = LinksVersions(lambda: published(connection, topic))
            owned = status.clock_owned
        side = newest_side()
        wanted = owned and time.monotonic() >= due_time and not runtime.ready_reason()
        if wanted and side is not None and len(side) and not versions.is_newest(side):
            due_time = time.monotonic() + seconds
            try:
                loop = asyncio.get_running_loop()
                found = await loop.run_in_executor(None, versions.due, side)
            except UserError as error:
                # The broker may be down; the rights were checked at the start.
                log.warning("item_links.unreadable", reason=str(error))
                found = []
            if found and status.clock_owned:  # it may have passed to another worker meanwhile
                for record in found:
                    writer.send(key=record.key, value=encode_links(record))
                log.info("item_links.written", cut=side.version, items=len(side))
        writer.poll()


def published(connection: Connection, topic: str) -> LinksVersion | None:
    """Return the newest whole version in the topic, None where none is."""
    reader = LinksReader()
    for message in records(connection, topic, newest=NEWEST_RECORDS):
        reader.learn(message.key(), message.value())
    return reader.newest()

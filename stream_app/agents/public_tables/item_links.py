"""Publishing the item side, for devices that rank by themselves: the owner of the clock alone.

    due?  --new version--> bytes, off the event loop --> pages --> manifest --> the other slot

Everything is derived from the state: a late or lost version loses no data. A record that Kafka
refuses ends the process, as every refused write does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import faust
import structlog
from confluent_kafka import Producer

from stream_app.agents.crash_guard import crash_guard
from stream_app.agents.runtime import Runtime
from stream_app.errors import UserError
from stream_app.kafka.acknowledged_writer import AcknowledgedWriter
from stream_app.kafka.clients import Connection
from stream_app.kafka.table_versions import Versions, published
from stream_app.ranking.compact_side import encode_side
from stream_app.ranking.item_side import ItemSide
from stream_app.wire.public_tables import encode_table_record

log = structlog.get_logger()

_LOOK_SECONDS = 1.0  # between two looks for a new item side

NewestSide = Callable[[], ItemSide | None]


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

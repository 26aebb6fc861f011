"""Publishing the item table: only the owner of the clock publishes, a few pages at a time.

The table is derived from the state: a late page loses no data, and a new owner publishes every page
again. A page that Kafka refuses ends the process, as every refused write does.
"""

from __future__ import annotations

import faust
from confluent_kafka import Producer

from stream_app.agents.crash_guard import crash_guard
from stream_app.agents.runtime import Runtime
from stream_app.kafka.acknowledged_writer import AcknowledgedWriter
from stream_app.serving.item_table import ItemTablePages
from stream_app.wire import encode_message

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

"""Versions of one public table in its topic: which is due, and the slot that it goes to.

A version goes to the slot that does not hold the newest whole version, so a reader always finds one
whole. A new owner of the clock reads from the topic which slot that is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from stream_app.kafka.acknowledged_writer import AcknowledgedWriter
from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_follower import records
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

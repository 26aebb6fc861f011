"""Reading the public table of noised similarities, where workers answer by it (`similar_from`).

    topic --end moved?--> newest whole version, off the event loop --> recommender

The look is at the end offset alone; a version is read once. A table of another format, or half a
version, leaves the one before in use, with a warning.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import faust
import structlog

from stream_app.agents.crash_guard import crash_guard
from stream_app.agents.runtime import Runtime
from stream_app.errors import UserError
from stream_app.kafka import topic_follower
from stream_app.kafka.clients import Connection
from stream_app.kafka.table_versions import published
from stream_app.ranking.domains.table_bytes import decode_table
from stream_app.ranking.similarity import COSINE
from stream_app.serving.together.co_rated import NoisedSimilarities
from stream_app.wire.public_tables import TableVersion

log = structlog.get_logger()


@dataclass
class NewestSimilarities:
    """Looks at a topic; `due` returns a table that was not returned before, and blocks."""

    end: Callable[[], int | None]
    version: Callable[[], TableVersion | None]
    method: str = COSINE
    _end: int = 0
    _table: bytes = b""

    def due(self) -> NoisedSimilarities | None:
        """Return the newest table, None where it is the one of before or cannot be read."""
        end = self.end() or 0
        if end == self._end:
            return None
        version, self._end = self.version(), end
        if version is None or version.table == self._table:
            return None
        self._table = version.table
        try:
            table = decode_table(version.table)
        except ValueError as error:
            log.warning("similarities.unreadable", reason=str(error))
            return None
        log.info("similarities.read", release=table.release, cut=table.version, items=len(table))
        return NoisedSimilarities(table, self.method)


def attach(app: faust.App, runtime: Runtime, connection: Connection) -> None:
    """Give the recommender each newer table, where it answers by them."""
    recommender, topic = runtime.recommender, runtime.topics.similarities
    if not recommender.from_published:
        return
    newest = NewestSimilarities(
        lambda: topic_follower.end_offset(connection, topic),
        lambda: published(connection, topic),
        recommender.listed_by or COSINE,
    )

    @crash_guard(runtime.status)
    async def read_similarities() -> None:
        try:
            found = await asyncio.get_running_loop().run_in_executor(None, newest.due)
        except UserError as error:
            # The broker may be down; the rights were checked at the start.
            log.warning("similarities.unreadable", reason=str(error))
            return
        if found is not None:
            recommender.take_published(found)

    app.task(read_similarities)  # at the start, too: a timer waits first
    app.timer(runtime.settings.item_links_seconds)(read_similarities)

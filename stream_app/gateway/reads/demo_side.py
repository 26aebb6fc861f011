"""GET /demo/item-links: the item side that there would be without noise, in a demo only.

A demo has simulated people, so their true ratings are known and are no person's: the page shows the
list from this side beside the one from released reports. A real gateway has no such file, and 404.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from aiohttp import web

from stream_app.gateway.reads.documents import Document, nothing_yet, parameters_refused
from stream_app.ranking.compact_side import MOST_BYTES, CompactSideError, decode_side
from stream_app.web.replies import refused

if TYPE_CHECKING:
    from stream_app.gateway.context import Gateway


class DemoSide:
    """The document of a file, read again when the file changes; half a file is not taken."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = Lock()
        self._read: tuple[int, int, int] | None = None
        self._document: Document | None = None

    def current(self) -> Document | None:
        """Return the newest whole side that was in the file, None before the first; it reads the
        file, so call it in a thread."""
        with self._lock:
            try:
                found = self._file.stat()
                state = (found.st_mtime_ns, found.st_size, found.st_ino)
                if state != self._read:
                    self._take(self._file.read_bytes() if found.st_size <= MOST_BYTES else b"")
                    self._read = state
            except OSError:
                self._read = None
            return self._document

    def _take(self, table: bytes) -> None:
        try:
            decode_side(table)
        except CompactSideError:
            return
        self._document = Document.made(table, "application/octet-stream")


def attach(app: web.Application, gateway: Gateway) -> None:
    """Add the page."""
    file = gateway.settings.demo_side
    side = None if file is None else DemoSide(file)

    async def demo_item_links(request: web.Request) -> web.Response:
        refusal = parameters_refused(request)
        if refusal is not None:
            return refusal
        if side is None:
            return refused(404, "not_a_demo", "only a demo knows true ratings: there are none here")
        document = await asyncio.to_thread(side.current)
        return nothing_yet() if document is None else document.answer(request)

    app.router.add_get("/demo/item-links", demo_item_links)

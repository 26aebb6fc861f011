"""GET /demo and GET /demo/item-links: what only a demo knows, from files in its folder.

A demo has simulated people, so their true ratings are no person's; of the people in a file of
ratings none is shown, and the item side is of all together. A real gateway has no such files, and
answers 404.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from stream_app.gateway.contract.bodies import DemoFacts
from stream_app.gateway.contract.rejection_reasons import OF_HTTP, HttpReason
from stream_app.ranking.compact_side import MOST_BYTES, decode_side
from stream_app.web.cached_document import Document, nothing_yet
from stream_app.web.refusals import refused

if TYPE_CHECKING:
    from stream_app.gateway.context import Gateway, Views

FACTS_NAME = "demo.json"  # beside the item side
_FACTS = msgspec.json.Decoder(DemoFacts)


class DemoFile:
    """The document of a file of a demo, read again when the file changes; what `check` refuses with
    a ValueError, as half a file, is not taken."""

    def __init__(self, file: Path, check: Callable[[bytes], object], content_type: str) -> None:
        self._file, self._check, self._type = file, check, content_type
        self._lock = Lock()
        self._read: tuple[int, int, int] | None = None
        self._document: Document | None = None

    def current(self) -> Document | None:
        """Return the newest whole content of the file, None before the first; it reads the file, so
        call it in a thread."""
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

    def _take(self, content: bytes) -> None:
        try:
            self._check(content)
        except ValueError:
            return
        self._document = Document.made(content, self._type)


def attach(_: web.Application, gateway: Gateway) -> Views:
    """Return both pages."""
    side = gateway.demo_side
    files = (
        {}
        if side is None
        else {
            "demo": DemoFile(side.with_name(FACTS_NAME), _FACTS.decode, "application/json"),
            "demoItemLinks": DemoFile(side, decode_side, "application/octet-stream"),
        }
    )

    def view(name: str) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def page(_: web.Request) -> web.Response:
            return refused(404, HttpReason.NOT_A_DEMO, OF_HTTP[HttpReason.NOT_A_DEMO])

        async def of_demo(request: web.Request) -> web.Response:
            document = await asyncio.to_thread(files[name].current)
            return nothing_yet() if document is None else document.answer(request)

        return of_demo if files else page

    return {name: view(name) for name in ("demo", "demoItemLinks")}

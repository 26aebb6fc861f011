"""GET /demo: what only a demo knows, from a file in its folder. A real gateway has no such file,
and answers 404."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiohttp import web

from stream_app.gateway.contract.rejection_reasons import OF_HTTP, HttpReason
from stream_app.web.cached_document import Document, nothing_yet
from stream_app.web.refusals import refused

if TYPE_CHECKING:
    from stream_app.gateway.context import Gateway, Views


def attach(_: web.Application, gateway: Gateway) -> Views:
    """Return the page."""
    file = gateway.demo_facts

    async def page(request: web.Request) -> web.Response:
        if file is None:
            return refused(404, HttpReason.NOT_A_DEMO, OF_HTTP[HttpReason.NOT_A_DEMO])
        try:
            content = await asyncio.to_thread(file.read_bytes)
        except OSError:
            return nothing_yet()
        return Document.made(content, "application/json").answer(request)

    return {"demo": page}

"""The headers of every reply, and which pages of other origins may use the gateway (CORS).

A page of an origin that is not allowed gets no CORS header: its browser then neither sends it a
reply nor lets it post, since no content type of /reports is one that a form can have.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from stream_app.web.replies import SECURITY

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

# A device waits as long as it is asked to; a page of another origin cannot read it otherwise.
_EXPOSED = {"Access-Control-Expose-Headers": "Retry-After"}


class Origins:
    """The origins whose pages may use the gateway; `*` for all."""

    def __init__(self, allowed: frozenset[str]) -> None:
        self._allowed = allowed

    def headers(self, origin: str | None) -> dict[str, str]:
        """Return the headers that allow a page of this origin to read a reply."""
        if not self._allowed:
            return {}
        if "*" in self._allowed:
            return {"Access-Control-Allow-Origin": "*", **_EXPOSED}
        found = {"Vary": "Origin"}
        if origin is not None and origin.lower() in self._allowed:
            found |= {"Access-Control-Allow-Origin": origin, **_EXPOSED}
        return found

    async def added(self, request: web.Request, response: web.StreamResponse) -> None:
        """Add the headers of every reply; a signal of aiohttp, before the reply begins."""
        headers = response.headers
        headers.update(SECURITY)
        headers.setdefault("Cache-Control", "no-store")
        for name, value in self.headers(request.headers.get("Origin")).items():
            if name == "Vary" and "Vary" in headers:
                value = f"{headers['Vary']}, {value}"
            headers[name] = value

    @web.middleware
    async def preflight(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Answer the question of a browser whether a page of another origin may send a request."""
        if request.method != "OPTIONS" or "Access-Control-Request-Method" not in request.headers:
            return await handler(request)
        found = self.headers(request.headers.get("Origin"))
        if "Access-Control-Allow-Origin" in found:
            found = {
                "Access-Control-Allow-Methods": "GET, POST",
                "Access-Control-Allow-Headers": "Content-Type, If-None-Match, Cache-Control",
                "Access-Control-Max-Age": "600",
            }
            return web.Response(status=204, headers=found)
        return web.Response(status=403)

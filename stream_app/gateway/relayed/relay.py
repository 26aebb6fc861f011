"""A relay (RFC 9458): it sees the addresses of clients and no contents, its gateway the reverse.

    client --POST /ohttp--> relay --the same body, nothing else of the client--> gateway

To the gateway go the bytes and their content type: no address, cookie, agent or origin. Nothing of
a request is kept or logged. A client's address is limited to `gateway_rate` requests a second. The
separation holds while the operators of relay and gateway are two and do not compare their logs.

A relay needs no Kafka and holds no key. GET /ohttp-keys is forwarded too, but a relay could answer
with a key of its own: clients pin the gateway's.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from math import ceil
from typing import Final

import aiohttp
from aiohttp import web

from stream_app.errors import UsageError
from stream_app.gateway.buckets import Buckets, client
from stream_app.gateway.contract.rejection_reasons import OF_HTTP, HttpReason
from stream_app.gateway.http_application import Origins, in_one_form
from stream_app.gateway.readiness import Readiness
from stream_app.gateway.relayed.sealed_requests import bounded, read_sealed
from stream_app.settings import Settings
from stream_app.web.connections import Connections, Limits
from stream_app.web.oblivious_http import REQUEST
from stream_app.web.refusals import Access, refused

_SECONDS = 25.0
_MOST_REPLY_BYTES = 33 * 1024 * 1024  # a catalogue has 32 at most
_REPLIED = {"Content-Type", "Retry-After"}
_AWAY = "the gateway behind this relay cannot be reached: send the same bytes again later"
_SESSION: Final = web.AppKey("session", aiohttp.ClientSession)


@dataclass(frozen=True, eq=False)
class Relay:
    """A relay to the gateway at `target`, an address without a slash at its end."""

    settings: Settings
    target: str
    connections: Connections = field(default_factory=lambda: Connections(Limits(most=600)))
    readiness: Readiness = field(default_factory=Readiness)

    @classmethod
    def to(cls, url: str, settings: Settings) -> Relay:
        """Return the relay to a gateway; refuses what is no address."""
        if not re.fullmatch(r"https?://[^/?#@\s]+(/[^?#\s]*)?", url):
            raise UsageError(
                f"--relay-to {url[:100]!r}: give the address of a gateway, such as "
                "https://gateway.example.org"
            )
        return cls(settings, url.rstrip("/"))


def build(relay: Relay) -> web.Application:
    """Return the application; call it inside a running event loop."""
    settings, buckets = relay.settings, Buckets(relay.settings.gateway_rate)
    names = frozenset({settings.gateway_host.lower(), *settings.gateway_hosts})
    origins = Origins(frozenset(settings.gateway_origins))

    async def session(running: web.Application) -> AsyncIterator[None]:
        async with aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding"),
            auto_decompress=False,
        ) as found:
            running[_SESSION] = found
            yield

    async def forward(request: web.Request) -> web.Response:
        if wait := buckets.wait(client(request.remote), time.monotonic()):
            rate = HttpReason.RATE
            return refused(429, rate, OF_HTTP[rate], Retry_After=str(ceil(wait)))
        body = await read_sealed(request) if request.method == "POST" else None
        if isinstance(body, web.Response):
            return body
        try:
            return await _forwarded(request, f"{relay.target}{request.path}", body)
        except (aiohttp.ClientError, TimeoutError):
            return refused(502, HttpReason.NO_ANSWER, _AWAY, Retry_After="5")

    app = web.Application(
        middlewares=(
            relay.connections.limited,
            Access(names, setting="gateway_hosts").checked,
            origins.preflight,
            in_one_form,
        )
    )
    app.on_response_prepare.append(origins.added)
    app.cleanup_ctx.append(session)
    app.router.add_get("/ohttp-keys", forward)
    app.router.add_post("/ohttp", forward)
    return app


async def _forwarded(request: web.Request, url: str, body: bytes | None) -> web.Response:
    headers = {} if body is None else {"Content-Type": REQUEST}
    async with request.app[_SESSION].request(
        request.method, url, data=body, headers=headers, allow_redirects=False
    ) as reply:
        content = await bounded(reply.content, _MOST_REPLY_BYTES)
        if content is None:
            raise aiohttp.ClientPayloadError("a reply that is too large")
        kept = {name: text for name, text in reply.headers.items() if name in _REPLIED}
        return web.Response(status=reply.status, body=content, headers=kept)

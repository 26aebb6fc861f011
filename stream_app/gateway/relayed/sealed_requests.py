"""Requests through a relay: GET /ohttp-keys and POST /ohttp (RFC 9458), for every endpoint at once.

    relay --POST /ohttp--> open --HTTP over a pair of sockets--> this application --> seal --> relay

What is inside of the seal reaches the application as a request of its own, without an address:
limits by address do not hold it, since all clients of a relay have one. The relay limits its
clients; here `MOST` sealed requests are under way, and a device has its own limit. A relay can send
a sealed request again: reports and contributions count once, whoever sends them. The pages of
operators are refused inside of a seal.

The key is 64 hex digits in a file of mode 0600, made at the first start. Who holds it reads what
passes the relay, later too, where the relay has kept it.
"""

from __future__ import annotations

import asyncio
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
from aiohttp import StreamReader, web

from stream_app.errors import UserError
from stream_app.gateway.contract.rejection_reasons import OF_HTTP, HttpReason
from stream_app.kafka import durable_file
from stream_app.web import binary_http, oblivious_http
from stream_app.web.binary_http import Message
from stream_app.web.refusals import refused
from stream_app.wire import Reason
from stream_app.wire.limits import MAX_CONTRIBUTION_BATCH_BYTES

if TYPE_CHECKING:
    from stream_app.gateway.context import Gateway, Views

log = structlog.get_logger()
MOST = 64
MOST_BYTES = 2 * MAX_CONTRIBUTION_BATCH_BYTES
# Of a request and its reply, what reaches the other side; not what a browser says of itself.
_ASKED = {"accept-encoding", "content-type", "content-encoding", "if-none-match"}
_REPLIED = {"content-type", "content-encoding", "etag", "retry-after"}


def secret_in(path: Path) -> bytes:
    """Return the key in a file, which is made where there is none; raises `UserError` for one that
    is damaged, readable by others than its owner, or cannot be written."""
    try:
        with suppress(FileExistsError):
            durable_file.create(path, os.urandom(oblivious_http.KEY_BYTES).hex().encode())
            durable_file.sync_folder(path.parent)
        if path.stat().st_mode & 0o077:
            raise UserError(f"{path}: others can read the gateway's relay key; chmod 600 it")
        text = path.read_bytes()
    except OSError as error:
        raise UserError(
            f"gateway_relay_key = {path}: cannot be used ({error.strerror}); name a file in a "
            "folder of the gateway's user"
        ) from None
    if re.fullmatch(rb"[0-9a-f]{64}\n?", text) is None:
        raise UserError(
            f"{path}: is no relay key (64 hex digits); restore it from a copy, or name a new file "
            "and give its public half to every device"
        )
    return bytes.fromhex(text.decode())


def attach(_: web.Application, gateway: Gateway) -> Views:
    """Return the two pages; UserError for a key that cannot be used."""
    path = gateway.settings.gateway_relay_key
    if path is None:
        return dict.fromkeys(("ohttpKeys", "ohttp"), _no_relay)
    secret = secret_in(path)
    public = oblivious_http.public_of(secret)
    log.info("gateway.opens_sealed_requests", public_key=public.hex())
    keys = oblivious_http.key_configurations(public)

    async def ohttp_keys(_: web.Request) -> web.Response:
        return web.Response(body=keys, content_type=oblivious_http.KEYS)

    return {"ohttpKeys": ohttp_keys, "ohttp": SealedRequests(gateway, secret).post}


async def _no_relay(_: web.Request) -> web.Response:
    return refused(404, HttpReason.NO_RELAY, OF_HTTP[HttpReason.NO_RELAY])


async def read_sealed(request: web.Request) -> bytes | web.Response:
    """Return the body of a sealed request, or the refusal of what is none or too large."""
    if request.content_type != oblivious_http.REQUEST:
        sentence = f"a sealed request is {oblivious_http.REQUEST}"
        return refused(415, HttpReason.CONTENT_TYPE, sentence)
    body = await bounded(request.content, MOST_BYTES)
    if body is None:
        sentence = f"a sealed request has at most {MOST_BYTES} bytes"
        return refused(413, Reason.TOO_LARGE, sentence)
    return body


async def bounded(content: StreamReader, most: int) -> bytes | None:
    """Return what is left to read, None where it has more than so many bytes."""
    found = bytearray()
    async for chunk in content.iter_any():
        found += chunk
        if len(found) > most:
            return None
    return bytes(found)


class SealedRequests:
    """The view of sealed requests."""

    def __init__(self, gateway: Gateway, secret: bytes) -> None:
        self._gateway, self._secret = gateway, secret
        self._under_way = 0

    async def post(self, request: web.Request) -> web.Response:
        """Answer one sealed request."""
        if not request.remote:  # a request inside of another
            return await _no_relay(request)
        body = await read_sealed(request)
        if isinstance(body, web.Response):
            return body
        if self._under_way >= MOST:
            return refused(503, HttpReason.BUSY, OF_HTTP[HttpReason.BUSY], Retry_After="1")
        self._under_way += 1
        try:
            message, answer = oblivious_http.open_request(self._secret, body)
            reply = binary_http.padded(binary_http.encode(await self._answered(message)))
            return web.Response(body=answer.seal(reply), content_type=oblivious_http.RESPONSE)
        except oblivious_http.Unopened:
            return refused(400, HttpReason.SEALED, OF_HTTP[HttpReason.SEALED])
        finally:
            self._under_way -= 1

    async def _answered(self, message: bytes) -> Message:
        try:
            asked = binary_http.decode(message)
            if asked.control[:1] not in (("GET",), ("POST",)):
                return _inside(405, HttpReason.METHOD)
            return await self._forwarded(asked)
        except ValueError:
            return _inside(400, HttpReason.REQUEST)
        except (asyncio.IncompleteReadError, ConnectionError):
            return _inside(503, HttpReason.BUSY)

    async def _forwarded(self, asked: Message) -> Message:
        """Send a request to the application, on a connection of its own."""
        lines = [
            f"{asked.control[0]} {asked.control[3]} HTTP/1.1",
            f"Host: localhost\r\nConnection: close\r\nContent-Length: {len(asked.content)}",
            *(f"{name}: {value}" for name, value in asked.fields if name in _ASKED),
        ]
        reader, writer = await self._gateway.connections.dial()
        try:
            writer.write("\r\n".join((*lines, "", "")).encode("latin-1") + asked.content)
            first, *rest = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").splitlines()
            fields = {name.lower(): value.strip() for name, _, value in map(_named, rest) if name}
            status = int(first.split()[1])
            length = "0" if status in (204, 304) else fields.get("content-length")
            if length is None:  # a stream, which has no end
                return _inside(404, HttpReason.NOT_FOUND)
            kept = tuple((name, text) for name, text in fields.items() if name in _REPLIED)
            return Message(kept, await reader.readexactly(int(length)), status)
        finally:
            writer.close()


def _named(line: str) -> tuple[str, str, str]:
    return line.partition(":")


def _inside(status: int, reason: HttpReason) -> Message:
    """Return a refusal that only the client reads."""
    body = refused(status, reason, OF_HTTP[reason]).body
    assert isinstance(body, bytes)
    return Message((("content-type", "application/json"),), body, status)

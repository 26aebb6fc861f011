"""The admin port of a worker of several shards: /livez, and /readyz, which asks its processes.

Each process has an admin port of its own, with all pages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

import aiohttp
from aiohttp import web

from stream_app.errors import UserError
from stream_app.kafka.background_thread import BackgroundThread
from stream_app.settings import Settings
from stream_app.web.connections import Connections, Limits, Listener
from stream_app.web.refusals import Access

JOINING = "joining the group of the shards"
_SECONDS = 2.0
_END_SECONDS = 0.5


class Pages:
    """Serves in a thread; `urls` gives the processes' addresses by shard, None before there can be
    any."""

    def __init__(self, settings: Settings, urls: Callable[[], Mapping[int, str] | None]) -> None:
        self._settings, self._urls = settings, urls
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        self._thread = BackgroundThread("pages", self._run)

    def start(self) -> str:
        """Listen, and return the address; raises UserError for one that cannot be bound."""
        settings = self._settings
        try:
            port = self._loop.run_until_complete(self._listen())
        except OSError as error:
            raise UserError(
                f"{settings.admin_host}:{settings.admin_port} cannot be served ({error.strerror}): "
                "choose another address with --admin-port or admin_host"
            ) from None
        self._thread.start()
        return f"http://{settings.admin_host}:{port}"

    def stop(self) -> None:
        """Stop listening."""
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(2 * _END_SECONDS)

    async def waits_for(self) -> str:
        """Return what the first shard that is not ready waits for; empty where all are ready."""
        urls = self._urls()
        if urls is None:
            return JOINING
        timeout = aiohttp.ClientTimeout(total=_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            for shard, url in sorted(urls.items()):
                found = {"waiting_for": "its process does not answer"}
                with suppress(aiohttp.ClientError, TimeoutError, ValueError):
                    async with session.get(f"{url}/readyz") as reply:
                        found = await reply.json()
                if not found.get("ready"):
                    return f"shard {shard}: {found.get('waiting_for')}"
        return ""

    async def _listen(self) -> int:
        settings = self._settings
        names = frozenset({settings.admin_host.lower(), *settings.admin_hosts})
        connections = Connections(Limits())
        checked = Access(names, settings.admin_token).checked
        app = web.Application(middlewares=(connections.limited, checked))
        app.router.add_get("/livez", self._livez)
        app.router.add_get("/readyz", self._readyz)
        self._listener = Listener(app, connections, linger_seconds=0, end_seconds=_END_SECONDS)
        return await self._listener.start(settings.admin_host, settings.admin_port)

    def _run(self) -> None:
        self._loop.run_until_complete(self._ended.wait())
        self._loop.run_until_complete(self._listener.stop())
        self._loop.close()

    async def _livez(self, _: web.Request) -> web.Response:
        return web.json_response({"alive": True})

    async def _readyz(self, _: web.Request) -> web.Response:
        reason = await self.waits_for()
        found = {"ready": not reason, "waiting_for": reason or None}
        return web.json_response(found, status=503 if reason else 200)

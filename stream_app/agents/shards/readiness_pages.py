"""The admin port of a worker of several shards, which asks its processes.

/livez      whether all work
/readyz     whether all are ready, and if not what the first one waits for
/metrics    of all, by the label `shard`; `murmurec_shard_up` is 0 for one that does not answer

Each process has an admin port of its own, with all pages; /state is there alone.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress

import aiohttp
from aiohttp import web

from stream_app.errors import UserError
from stream_app.kafka.background_thread import BackgroundThread
from stream_app.monitoring.collectors import CONTENT_TYPE, together
from stream_app.settings import Settings
from stream_app.web.connections import Connections, Limits, Listener
from stream_app.web.refusals import Access, refused

JOINING = "joining the group of the shards"
_SECONDS = 3.0  # a scrape waits for 4, a probe of /readyz for 5
_LIVE_SECONDS = 8.0  # and one of /livez for 10: a busy process may take seconds
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
        pages = await self._asked("/readyz", _SECONDS)
        if pages is None:
            return JOINING
        for shard, page in pages.items():
            found = _read(page)
            if not found.get("ready"):
                return f"shard {shard}: {found.get('waiting_for', 'its process does not answer')}"
        return ""

    async def _asked(self, path: str, seconds: float) -> dict[int, str | None] | None:
        """Return a page of each process, asked at once: None of one that does not answer in time;
        None before there can be any."""
        urls = self._urls()
        if urls is None:
            return None
        token = self._settings.admin_token
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        timeout = aiohttp.ClientTimeout(total=seconds)

        async def ask(url: str) -> str | None:
            with suppress(aiohttp.ClientError, TimeoutError, ValueError):
                async with session.get(url + path, headers=headers) as reply:
                    return await reply.text() if reply.status in (200, 503) else None
            return None

        async with aiohttp.ClientSession(timeout=timeout) as session:
            pages = await asyncio.gather(*(ask(url) for _, url in sorted(urls.items())))
        return dict(zip(sorted(urls), pages, strict=True))

    async def _listen(self) -> int:
        settings = self._settings
        names = frozenset({settings.admin_host.lower(), *settings.admin_hosts})
        connections = Connections(Limits())
        checked = Access(names, settings.admin_token).checked
        app = web.Application(middlewares=(connections.limited, checked))
        for name in ("livez", "readyz", "metrics", "state"):
            app.router.add_get(f"/{name}", getattr(self, f"_{name}"))
        self._listener = Listener(app, connections, linger_seconds=0, end_seconds=_END_SECONDS)
        return await self._listener.start(settings.admin_host, settings.admin_port)

    def _run(self) -> None:
        self._loop.run_until_complete(self._ended.wait())
        self._loop.run_until_complete(self._listener.stop())
        self._loop.close()

    async def _livez(self, _: web.Request) -> web.Response:
        pages = await self._asked("/livez", _LIVE_SECONDS) or {}
        dead = [shard for shard, page in pages.items() if not _read(page).get("alive")]
        found: dict[str, object] = {"alive": not dead}
        if dead:
            found["shards"] = dead
        return web.json_response(found, status=503 if dead else 200)

    async def _readyz(self, _: web.Request) -> web.Response:
        reason = await self.waits_for()
        found = {"ready": not reason, "waiting_for": reason or None}
        return web.json_response(found, status=503 if reason else 200)

    async def _metrics(self, _: web.Request) -> web.Response:
        page = together(await self._asked("/metrics", _SECONDS) or {})
        return web.Response(body=page, headers={"Content-Type": CONTENT_TYPE})

    async def _state(self, _: web.Request) -> web.Response:
        urls = ", ".join(url for _, url in sorted((self._urls() or {}).items()))
        sentence = f"each shard has a state of its own: ask {urls or 'one when it is held'}"
        return refused(409, "shards", sentence)


def _read(page: str | None) -> dict[str, object]:
    """Return what a page of JSON holds; nothing of another one."""
    with suppress(ValueError):
        found = json.loads(page or "{}")
        return found if isinstance(found, dict) else {}
    return {}

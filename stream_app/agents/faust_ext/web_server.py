"""Faust's web server with the limits of `stream_app/web/connections.py`."""

from __future__ import annotations

import asyncio
from typing import Any

import faust
from aiohttp import web
from faust.web.drivers.aiohttp import Web

from stream_app.web.connections import BACKLOG, Connections, Limits

_END_SECONDS = 0.5  # for views that still run at the end


class LimitedWeb(Web):
    """Faust's aiohttp server on a listener of its own; `middlewares` run before every view."""

    def __init__(
        self, app: faust.App, limits: Limits, middlewares: tuple[Any, ...] = (), **kwargs: Any
    ) -> None:
        super().__init__(app, **kwargs)
        self.connections = Connections(limits)
        self.web_app.middlewares.extend((self.connections.limited, *middlewares))
        self._runner = web.AppRunner(
            self.web_app,
            access_log=None,
            lingering_time=0,
            handler_cancellation=True,
            shutdown_timeout=_END_SECONDS,
        )
        self._listener: asyncio.Server | None = None

    async def start_server(self) -> None:
        """Listen; raises OSError for an address that cannot be bound."""
        await self._runner.setup()
        serve = self._runner.server
        assert serve is not None, "set up above"
        conf = self.app.conf
        self._listener = await asyncio.get_running_loop().create_server(
            lambda: self.connections.protocol(serve()),
            conf.web_bind,
            conf.web_port,
            backlog=BACKLOG,
        )

    async def stop_server(self) -> None:
        """Stop listening, then end the views."""
        if self._listener is not None:
            self._listener.close()
        await super().stop_server()

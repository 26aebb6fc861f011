"""Faust's web server on a listener of `stream_app/web`, with its limits."""

from __future__ import annotations

from typing import Any

import faust
from faust.web.drivers.aiohttp import Web

from stream_app.web.connections import Connections, Limits, Listener

_END_SECONDS = 0.5  # for views that still run at the end


class LimitedWeb(Web):
    """Faust's aiohttp application; `middlewares` run before every view."""

    def __init__(
        self, app: faust.App, limits: Limits, middlewares: tuple[Any, ...] = (), **kwargs: Any
    ) -> None:
        super().__init__(app, **kwargs)
        self.connections = Connections(limits)
        self.web_app.middlewares.extend((self.connections.limited, *middlewares))
        self._listener = Listener(
            self.web_app, self.connections, linger_seconds=0, end_seconds=_END_SECONDS
        )

    async def start_server(self) -> None:
        """Listen; raises OSError for an address that cannot be bound."""
        await self._listener.start(self.app.conf.web_bind, self.app.conf.web_port)

    async def stop_server(self) -> None:
        """Stop listening, then end the views."""
        await self._listener.stop()
        await super().stop_server()

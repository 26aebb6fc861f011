"""/livez, /readyz and /metrics of a gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from stream_app.gateway.intake.writer import WRITER
from stream_app.gateway.metrics import CONTENT_TYPE

if TYPE_CHECKING:
    from stream_app.gateway.context import Gateway


def attach(app: web.Application, gateway: Gateway) -> None:
    """Add the three pages."""

    async def livez(_: web.Request) -> web.Response:
        return web.json_response({"alive": True})

    async def readyz(_: web.Request) -> web.Response:
        waiting_for = gateway.readiness.waiting_for
        body = {"ready": waiting_for is None, "waiting_for": waiting_for}
        return web.json_response(body, status=503 if waiting_for else 200)

    async def metrics(request: web.Request) -> web.Response:
        unconfirmed = len(request.app[WRITER])
        text = gateway.metrics.render(
            unconfirmed, len(gateway.connections), gateway.readiness.ready
        )
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE})

    app.router.add_get("/livez", livez)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/metrics", metrics)

"""The application of a gateway, put together from the views of its parts.

/livez, /readyz and /metrics are here. Every error of a view is answered as a refusal of the one
form (`stream_app/web/replies.py`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog
from aiohttp import web

from stream_app.gateway import static_files
from stream_app.gateway.asking import views
from stream_app.gateway.context import Gateway, GatewaySettings
from stream_app.gateway.contract.reasons import OF_HTTP, HttpReason
from stream_app.gateway.headers import Origins
from stream_app.gateway.intake import reports
from stream_app.gateway.intake.writer import WRITER
from stream_app.gateway.readiness import watching
from stream_app.gateway.reads import demo_side, mechanisms, stream, tables
from stream_app.monitoring.collectors import CONTENT_TYPE
from stream_app.web.access import Access
from stream_app.web.replies import refused
from stream_app.wire import MAX_EVENT_BYTES

__all__ = ["Gateway", "GatewaySettings", "build"]

log = structlog.get_logger()
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

# Status of an HTTP error that aiohttp raises -> its reason; any other is a request that is not
# understood.
_OF_STATUS = {404: HttpReason.NOT_FOUND, 405: HttpReason.METHOD}


@web.middleware
async def in_one_form(request: web.Request, handler: _Handler) -> web.StreamResponse:
    """Answer every error of a view as a refusal; one that is a defect is logged without data."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        reason = _OF_STATUS.get(error.status, HttpReason.REQUEST)
        allow = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
        return refused(error.status, reason, OF_HTTP[reason], **allow)
    except Exception as error:  # noqa: BLE001 (a defect: this client is answered, others served)
        places = _places(error)
        log.error("gateway.defect", error=type(error).__name__, places=places)
        return refused(500, HttpReason.DEFECT, OF_HTTP[HttpReason.DEFECT])


def _places(error: BaseException) -> list[str]:
    """Return file:line of the frames; the message and the variables may hold what a client sent."""
    places = []
    step = error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        places.append(f"{code.co_filename.rpartition('/')[2]}:{step.tb_lineno}")
        step = step.tb_next
    return places[-5:]


def probes(app: web.Application, gateway: Gateway) -> None:
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


ATTACHED = (
    reports.attach,
    views.attach,
    probes,
    mechanisms.attach,
    tables.attach,
    demo_side.attach,
    stream.attach,
    static_files.attach,
)


def build(gateway: Gateway) -> web.Application:
    """Return the application with every view attached; call it inside a running event loop."""
    settings = gateway.settings
    origins = Origins(settings.origins)
    access = Access(settings.hosts, setting="gateway_hosts")
    app = web.Application(
        client_max_size=MAX_EVENT_BYTES,
        middlewares=(
            gateway.connections.limited,
            access.checked,
            origins.preflight,
            in_one_form,
        ),
    )
    app.on_response_prepare.append(origins.added)
    app.cleanup_ctx.append(watching(gateway))

    async def end_streams(_: web.Application) -> None:
        gateway.connections.end_streams()

    app.on_shutdown.append(end_streams)
    for attach in ATTACHED:
        attach(app, gateway)
    return app

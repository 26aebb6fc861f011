"""The application of a gateway, put together from the views of its parts.

/livez, /readyz and /metrics are here. Every error of a view is answered as a refusal of the one
form (`stream_app/web/refusals.py`), and every reply gets the headers of `Origins`.

A page of another origin (CORS) that is not allowed gets no CORS header: its browser then neither
shows it a reply nor lets it post, since no content type of /reports is one that a form can have.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import structlog
from aiohttp import web

from stream_app.gateway import campaigns, static_files
from stream_app.gateway import list_pages as lists
from stream_app.gateway import report_intake as reports
from stream_app.gateway.context import Gateway, Views
from stream_app.gateway.contract.endpoints import BY_NAME
from stream_app.gateway.contract.rejection_reasons import OF_HTTP, HttpReason
from stream_app.gateway.event_writer import WRITER
from stream_app.gateway.readiness import watching
from stream_app.gateway.reads import mechanism_view as mechanisms
from stream_app.gateway.reads import stream, tables
from stream_app.gateway.relayed import sealed_requests
from stream_app.monitoring.collectors import CONTENT_TYPE
from stream_app.web.cached_document import parameters_refused
from stream_app.web.refusals import SECURITY, Access, places, refused
from stream_app.wire import MAX_EVENT_BYTES

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


log = structlog.get_logger()

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
        log.error("gateway.defect", error=type(error).__name__, places=places(error))
        return refused(500, HttpReason.DEFECT, OF_HTTP[HttpReason.DEFECT])


def probes(_: web.Application, gateway: Gateway) -> Views:
    """Return the pages for operators."""

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

    return {"livez": livez, "readyz": readyz, "metrics": metrics}


ATTACHED = (
    reports.attach,
    campaigns.attach,
    campaigns.attach_intake,
    lists.attach,
    probes,
    mechanisms.attach,
    tables.attach,
    static_files.demo_facts,
    stream.attach,
    sealed_requests.attach,
    static_files.attach,
)


def build(gateway: Gateway) -> web.Application:
    """Return the application with every view attached; call it inside a running event loop."""
    settings = gateway.settings
    origins = Origins(frozenset(settings.gateway_origins))
    names = frozenset({settings.gateway_host.lower(), *settings.gateway_hosts})
    access = Access(names, setting="gateway_hosts")
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
    views: dict[str, _Handler] = {}
    for attach in ATTACHED:
        views |= attach(app, gateway)
    add_routes(app, views)
    return app


def add_routes(app: web.Application, views: Views) -> None:
    """Add the route of each endpoint that has a view here."""
    for name, view in views.items():
        endpoint = BY_NAME[name]
        if endpoint.method == "POST":
            most = MAX_EVENT_BYTES if endpoint.takes_event else sealed_requests.MOST_BYTES
            expect = partial(reports.expected, most)
            app.router.add_post(endpoint.path, view, expect_handler=expect)
        else:
            path = endpoint.path.replace("/web/{name}", "/web/{name:.+}")
            fixed = endpoint.is_the_same_for_all
            view = _not_sealed(view) if endpoint.tag == "operation" else view
            app.router.add_get(path, _without_parameters(view) if fixed else view)


def _not_sealed(view: _Handler) -> _Handler:
    """Return a page of operators, which a proxy may keep from others: inside of a sealed request,
    which has no address, it is not there."""

    async def checked(request: web.Request) -> web.StreamResponse:
        if not request.remote:
            return refused(404, HttpReason.NOT_FOUND, OF_HTTP[HttpReason.NOT_FOUND])
        return await view(request)

    return checked


def _without_parameters(view: _Handler) -> _Handler:
    async def checked(request: web.Request) -> web.StreamResponse:
        return parameters_refused(request) or await view(request)

    return checked

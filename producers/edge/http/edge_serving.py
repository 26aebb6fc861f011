"""The application of an edge, served until a signal ends it: the views on the routes of the table.

Every refusal has one form (`stream_app/web/refusals.py`); a defect is logged by the places in the
code alone, since its message may hold what a user did. No reply allows a page of another origin.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_address

import structlog
from aiohttp import web

from producers.edge.http import intake_views, list_views, pages, user_views
from producers.edge.http.contract.edge_endpoints import BY_NAME, ENDPOINTS, REASONS
from producers.edge.http.contract.given import Refused
from producers.edge.http.site import EDGE, Edge, View
from stream_app.errors import Unreadable, Unwritable, UsageError, UserError
from stream_app.web.cached_document import page_files
from stream_app.web.connections import Listener
from stream_app.web.refusals import SECURITY, Access, places, refused

log = structlog.get_logger()

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_OF_STATUS = {404: "not_found", 405: "method"}
ATTACHED = (intake_views, list_views, user_views, pages)


@web.middleware
async def in_one_form(request: web.Request, handler: _Handler) -> web.StreamResponse:
    """Answer every error of a view as a refusal."""
    try:
        return await handler(request)
    except Refused as error:
        return refused(error.status, error.reason, error.sentence, **error.headers)
    except web.HTTPException as error:
        reason = _OF_STATUS.get(error.status, "request")
        allow = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
        return refused(error.status, reason, REASONS[reason], **allow)
    except (Unreadable, Unwritable) as error:
        log.warning("edge.store", problem=str(error))
        return refused(503, "store", REASONS["store"], Retry_After="2")
    except UserError as error:
        log.warning("edge.refused", problem=str(error))
        return refused(409, "refused", REASONS["refused"])
    except Exception as error:  # noqa: BLE001 (a defect: this client is answered, others served)
        log.error("edge.defect", error=type(error).__name__, places=places(error))
        return refused(500, "defect", REASONS["defect"])


@web.middleware
async def same_origin(request: web.Request, handler: _Handler) -> web.StreamResponse:
    """Refuse what a page of another site has a browser send: a form can post without being asked
    whether it may."""
    origin = request.headers.get("Origin")
    if origin is not None and origin.partition("://")[2] != request.headers.get("Host"):
        return refused(403, "origin", REASONS["origin"])
    return await handler(request)


async def _secured(_: web.Request, response: web.StreamResponse) -> None:
    """Add the headers of every reply; a signal of aiohttp, before the reply begins."""
    response.headers.update(SECURITY)
    response.headers.setdefault("Cache-Control", "no-store")


def build(edge: Edge) -> web.Application:
    """Return the application; call it inside a running event loop."""
    files = page_files(pages.PLACES)
    shown = {each.path for each in ENDPOINTS if each.open} | {f"/web/{name}" for name in files}
    access = Access(edge.names, edge.token, "--name", frozenset(shown), "MURMUREC_EDGE_TOKEN")
    app = web.Application(
        middlewares=(edge.connections.limited, access.checked, same_origin, in_one_form)
    )
    app[EDGE] = edge
    app.on_response_prepare.append(_secured)

    async def ended(_: web.Application) -> None:
        edge.pool.shutdown(wait=False, cancel_futures=True)

    app.on_cleanup.append(ended)
    views: dict[str, View] = {}
    for part in ATTACHED:
        views |= part.VIEWS
    views |= pages.documents(files)
    for name, view in views.items():
        for endpoint in filter(None, (BY_NAME[name], BY_NAME[name].by_query)):
            # By itself aiohttp takes no braces in a part of the path.
            app.router.add_route(endpoint.method, endpoint.path.replace("}", ":[^/]+}"), view)
    return app


log = structlog.get_logger()
_END_SECONDS = 2.0  # for answers that are under way
_LINGER_SECONDS = 0.5  # for a client that still sends when it is refused


def check_open(host: str, token: str | None) -> None:
    """Raise UsageError for an address that a network reaches, without a token."""
    try:
        is_here = ip_address(host).is_loopback
    except ValueError:
        is_here = host == "localhost"
    if token is None and not is_here:
        raise UsageError(
            f"--host {host}: every client that reaches it could read and delete what users did; "
            "set MURMUREC_EDGE_TOKEN (openssl rand -hex 32), or leave --host out"
        )


@asynccontextmanager
async def serving(edge: Edge, host: str, port: int) -> AsyncIterator[str]:
    """Serve for the length of the block; gives the address. Raises UserError for an address that
    cannot be bound."""
    listener = Listener(
        build(edge),
        edge.connections,
        linger_seconds=_LINGER_SECONDS,
        end_seconds=_END_SECONDS,
    )
    try:
        bound = await listener.start(host, port)
    except OSError as error:
        await listener.stop()
        raise UserError(
            f"--host {host} --port {port}: {error.strerror or error}; give --port another number, "
            "or 0 for any free one"
        ) from None
    try:
        yield f"http://{f'[{host}]' if ':' in host else host}:{bound}"
    finally:
        await listener.stop()


async def run(
    edge: Edge,
    host: str,
    port: int,
    started: Callable[[str], None],
    failure: Callable[[], str | None] = lambda: None,
) -> None:
    """Serve until SIGTERM or SIGINT, or until `failure`, asked each second, gives a sentence, which
    is raised as UserError. `started` receives the address."""
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    async with serving(edge, host, port) as address:
        log.info("edge.started", address=address)
        started(address)
        while not ended.is_set():
            if (sentence := failure()) is not None:
                raise UserError(sentence)
            try:
                await asyncio.wait_for(ended.wait(), 1.0)
            except TimeoutError:
                continue
        log.info("edge.stopping")

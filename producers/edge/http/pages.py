"""What an edge serves beside its parts: the page and its files, the contract, probes, metrics."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import msgspec
from aiohttp import web

from producers.edge.http.contract import edge_bodies
from producers.edge.http.contract.edge_endpoints import BY_NAME
from producers.edge.http.contract.edge_openapi import openapi, page
from producers.edge.http.contract.given import Refused, parameters
from producers.edge.http.site import CONTENT_TYPE, EDGE, View
from producers.edge.http.user_views import reply
from stream_app.errors import Unreadable
from stream_app.web.cached_document import TYPES, Document

_ROOT = Path(__file__).parents[3]
# In a wheel the files lie in the gateway's page; in a checkout under deploy.
PLACES = (_ROOT / "stream_app" / "gateway" / "page" / "edge", _ROOT / "deploy" / "web" / "edge")


def documents(files: Mapping[str, Document]) -> dict[str, View]:
    """Return the views of what is the same for everybody."""
    absent = Document.made(b"the page is not installed", TYPES[".txt"])
    fixed = {
        "page": files.get("index.html", absent),
        "docs": Document.made(page(), TYPES[".html"]),
        "openapi": Document.made(json.dumps(openapi(), indent=1).encode(), TYPES[".json"]),
    }

    def view(name: str) -> View:
        async def document(request: web.Request) -> web.Response:
            parameters(request, BY_NAME[name])
            return fixed[name].answer(request)

        return document

    async def file(request: web.Request) -> web.Response:
        name = parameters(request, BY_NAME["files"])["name"]
        if name not in files:
            raise Refused(404, "not_found", "there is no such page")
        return files[name].answer(request)

    return {**{name: view(name) for name in fixed}, "files": file}


async def livez(_: web.Request) -> web.Response:
    """Answer that the process works."""
    return reply(edge_bodies.Alive())


async def readyz(request: web.Request) -> web.Response:
    """Answer whether events are taken, and what is missing for better lists."""
    edge = request.app[EDGE]
    ready = await edge.ready()
    body = edge_bodies.Ready(ready, edge.site.problem() if ready else "the store")
    return web.Response(
        status=200 if ready else 503,
        body=msgspec.json.encode(body),
        content_type="application/json",
    )


async def metrics(request: web.Request) -> web.Response:
    """Answer with the metrics; without the store, with those that the process holds."""
    edge = request.app[EDGE]
    store = await edge.run(edge.site.writable)
    if store:
        try:
            found, quality = await edge.run(lambda: (edge.site.status(), edge.site.quality()))
            counts = {name: value for name, value in found.items() if isinstance(value, int)}
            edge.metrics.set(counts)
            edge.metrics.quality(quality.models)
        except Unreadable:
            store = False
    edge.metrics.set(
        {
            "waiting_events": edge.site.intake.waiting,
            "connections": len(edge.connections),
            "ready": float(await edge.ready()),
            "store": float(store),
        }
    )
    return web.Response(body=edge.metrics.render(), headers={"Content-Type": CONTENT_TYPE})


VIEWS: dict[str, View] = {"livez": livez, "readyz": readyz, "metrics": metrics}

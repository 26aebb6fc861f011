"""What an edge serves beside its parts: the page and its files, the contract, probes, metrics."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path

import msgspec
from aiohttp import web

from producers.edge.events.intake import MOST_WAITING
from producers.edge.http.contract import edge_bodies
from producers.edge.http.contract.edge_endpoints import BY_NAME
from producers.edge.http.contract.edge_openapi import openapi, page
from producers.edge.http.contract.given import Refused, parameters
from producers.edge.http.edge_metrics import CONTENT_TYPE
from producers.edge.http.site import EDGE, View
from producers.edge.http.user_views import reply

_ROOT = Path(__file__).parents[3]
# In a wheel the files lie in the gateway's page; in a checkout under deploy.
_PLACES = (_ROOT / "stream_app" / "gateway" / "page" / "edge", _ROOT / "deploy" / "web" / "edge")
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}


def page_files(places: tuple[Path, ...] = _PLACES) -> dict[str, tuple[bytes, str]]:
    """Return the files of the page and their content types, by name."""
    folder = next((place for place in places if place.is_dir()), None)
    if folder is None:
        return {}
    return {
        path.name: (path.read_bytes(), _TYPES[path.suffix])
        for path in sorted(folder.iterdir())
        if path.suffix in _TYPES
    }


def documents(files: Mapping[str, tuple[bytes, str]]) -> dict[str, View]:
    """Return the views of what is the same for everybody."""
    contract = json.dumps(openapi(), indent=1).encode()
    index = files.get("index.html", (b"the page is not installed", "text/plain"))
    fixed = {
        "page": index,
        "docs": (page(), "text/html"),
        "openapi": (contract, "application/json"),
    }

    def view(name: str) -> View:
        async def document(request: web.Request) -> web.Response:
            parameters(request, BY_NAME[name])
            return _sent(request, *fixed[name])

        return document

    async def file(request: web.Request) -> web.Response:
        name = parameters(request, BY_NAME["files"])["name"]
        if name not in files:
            raise Refused(404, "not_found", "there is no such page")
        return _sent(request, *files[name])

    return {**{name: view(name) for name in fixed}, "files": file}


def _sent(request: web.Request, body: bytes, kind: str) -> web.Response:
    tag = blake2b(body, digest_size=16).hexdigest()
    headers = {"ETag": f'"{tag}"', "Cache-Control": "no-cache"}
    if any(each.value in ("*", tag) for each in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    charset = None if kind == "application/json" else "utf-8"
    return web.Response(body=body, content_type=kind, charset=charset, headers=headers)


async def livez(_: web.Request) -> web.Response:
    """Answer that the process works."""
    return reply(edge_bodies.Alive())


async def readyz(request: web.Request) -> web.Response:
    """Answer whether events are taken, and what is missing for better lists."""
    edge = request.app[EDGE]
    ready = edge.site.intake.waiting < MOST_WAITING
    body = edge_bodies.Ready(ready, edge.site.problem() if ready else "the store")
    return web.Response(
        status=200 if ready else 503,
        body=msgspec.json.encode(body),
        content_type="application/json",
    )


async def metrics(request: web.Request) -> web.Response:
    """Answer with the metrics."""
    edge = request.app[EDGE]
    waiting = edge.site.intake.waiting
    found, quality = await edge.run(lambda: (edge.site.status(), edge.site.quality()))
    edge.metrics.set({name: value for name, value in found.items() if isinstance(value, int)})
    edge.metrics.set(
        {
            "waiting_events": waiting,
            "connections": len(edge.connections),
            "ready": float(waiting < MOST_WAITING),
        }
    )
    edge.metrics.quality(quality.models)
    return web.Response(body=edge.metrics.render(), headers={"Content-Type": CONTENT_TYPE})


VIEWS: dict[str, View] = {"livez": livez, "readyz": readyz, "metrics": metrics}

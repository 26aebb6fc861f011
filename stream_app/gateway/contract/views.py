"""/docs, /openapi.json, /asyncapi.json and /schemas/NAME.json of a gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from stream_app.gateway.contract.documents import documents
from stream_app.gateway.contract.shown.page import STYLE_SOURCE
from stream_app.gateway.headers import POLICY, SECURITY
from stream_app.gateway.refusals import refused
from stream_app.gateway.static_files import StaticFile

if TYPE_CHECKING:
    from stream_app.gateway.context import Gateway

HTML = "text/html; charset=utf-8"


def attach(app: web.Application, gateway: Gateway) -> None:
    """Add the documents, made once for the topics of this gateway."""
    settings = gateway.settings
    made = documents(gateway.topics, settings.partitions, settings.query_partitions)
    files = {
        path: StaticFile.of_bytes(body, HTML if path.endswith(".html") else "application/json")
        for path, body in made.items()
    }

    async def docs(request: web.Request) -> web.Response:
        reply = files["docs.html"].reply(request)
        reply.headers[POLICY] = f"{SECURITY[POLICY]}; style-src {STYLE_SOURCE}"
        return reply

    async def view(request: web.Request) -> web.Response:
        found = files.get(request.path.removeprefix("/"))
        return found.reply(request) if found else refused(404, "not_found", "there is no such page")

    app.router.add_get("/docs", docs)
    for path in ("/openapi.json", "/asyncapi.json", "/schemas/{name}.json"):
        app.router.add_get(path, view)

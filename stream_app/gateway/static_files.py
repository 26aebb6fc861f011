"""What a gateway serves of files: the page of `deploy/web`, and the documents of the contract.

/  /web/NAME                                          the files, read once; / is index.html
/docs  /openapi.json  /asyncapi.json  /schemas/NAME   `contract/documents.py`, for its topics
/demo                                                 the file of a demo; 404 of a real gateway
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from aiohttp import web

from stream_app.gateway.context import Gateway, Views
from stream_app.gateway.contract.documents import documents
from stream_app.gateway.contract.rejection_reasons import OF_HTTP, HttpReason
from stream_app.web.cached_document import TYPES, Document, nothing_yet, page_files
from stream_app.web.refusals import refused

# In a wheel the files are beside this module; in a checkout they are under deploy.
PLACES = (
    Path(__file__).parent / "page",
    Path(__file__).parents[2] / "deploy" / "web",
)


def attach(_: web.Application, gateway: Gateway) -> Views:
    """Return the page, its files and the documents, made once for the topics of this gateway."""
    settings = gateway.settings
    made = documents(gateway.topics, settings.partitions, settings.query_partitions)
    served = {f"/web/{path}": file for path, file in page_files(PLACES).items()}
    if gateway.pinned is not None:
        served["/web/pinned.json"] = Document.made(gateway.pinned, TYPES[".json"])
    served |= {
        f"/{path}": Document.made(body, TYPES[Path(path).suffix]) for path, body in made.items()
    }
    places = {"/": "/web/index.html", "/docs": "/docs.html"}

    async def view(request: web.Request) -> web.Response:
        found = served.get(places.get(request.path, request.path))
        if found is None:
            return refused(404, "not_found", "there is no such page")
        return found.answer(request)

    return dict.fromkeys(("page", "files", "docs", "openapi", "asyncapi", "schemas"), view)


def demo_facts(_: web.Application, gateway: Gateway) -> Views:
    """Return the page of what only a demo knows, from a file in its folder."""
    file = gateway.demo_facts

    async def page(request: web.Request) -> web.Response:
        if file is None:
            return refused(404, HttpReason.NOT_A_DEMO, OF_HTTP[HttpReason.NOT_A_DEMO])
        try:
            content = await asyncio.to_thread(file.read_bytes)
        except OSError:
            return nothing_yet()
        return Document.made(content, "application/json").answer(request)

    return {"demo": page}

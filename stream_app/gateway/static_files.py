"""What a gateway serves from memory: the page of `deploy/web`, and the documents of the contract.

/  /web/NAME                                          the files, read once; / is index.html
/docs  /openapi.json  /asyncapi.json  /schemas/NAME   `contract/documents.py`, for its topics
"""

from __future__ import annotations

from pathlib import Path

from aiohttp import web

from stream_app.gateway.context import Gateway, Views
from stream_app.gateway.contract.documents import documents
from stream_app.web.cached_document import TYPES, Document, page_files
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

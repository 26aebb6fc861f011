"""The files of the page, `deploy/web`, read once: / is index.html, /web/NAME the others."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from aiohttp import web

from stream_app.gateway.context import Gateway
from stream_app.gateway.refusals import refused

# In a wheel the files are beside this module; in a checkout they are under deploy.
_PLACES = (
    Path(__file__).parent / "page",
    Path(__file__).parents[2] / "deploy" / "web",
)
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/vnd.microsoft.icon",
    ".txt": "text/plain; charset=utf-8",
}


@dataclass(frozen=True)
class StaticFile:
    """A file as it is sent: plain and compressed, with its tag."""

    body: bytes
    packed: bytes
    content_type: str
    tag: str

    @classmethod
    def of_bytes(cls, body: bytes, content_type: str) -> StaticFile:
        """Return the file with these bytes."""
        tag = f'"{blake2b(body, digest_size=12).hexdigest()}"'
        return cls(body, gzip.compress(body, 9, mtime=0), content_type, tag)

    def reply(self, request: web.Request) -> web.Response:
        """Return the reply: the file, or 304 where the client has it."""
        headers = {
            "Cache-Control": "no-cache",
            "ETag": self.tag,
            "Vary": "Accept-Encoding",
            "Content-Type": self.content_type,
        }
        if self.tag in request.headers.get("If-None-Match", ""):
            del headers["Content-Type"]
            return web.Response(status=304, headers=headers)
        body = self.body
        if len(self.packed) < len(body) and "gzip" in request.headers.get("Accept-Encoding", ""):
            body, headers["Content-Encoding"] = self.packed, "gzip"
        return web.Response(body=body, headers=headers)


def page_files(places: tuple[Path, ...] = _PLACES) -> dict[str, StaticFile]:
    """Return the files of the page by their path below its folder."""
    folder = next((place for place in places if place.is_dir()), None)
    if folder is None:
        return {}
    return {
        path.relative_to(folder).as_posix(): StaticFile.of_bytes(
            path.read_bytes(), _TYPES[path.suffix]
        )
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix in _TYPES
    }


def attach(app: web.Application, gateway: Gateway) -> None:  # noqa: ARG001 (every attach is alike)
    """Add the page and its files."""
    files = page_files()

    async def view(request: web.Request) -> web.Response:
        found = files.get(request.match_info.get("name", "index.html"))
        if found is None:
            return refused(404, "not_found", "there is no such page")
        return found.reply(request)

    app.router.add_get("/", view)
    app.router.add_get("/web/{name:.+}", view)

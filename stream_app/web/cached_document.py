"""A document that is the same for all clients: made once, sent as it is.

    plain    ETag "DIGEST"         the bytes
    gzip     ETag "DIGEST-gzip"    for a client that accepts it

Two encodings are two representations, so each has a tag of its own (RFC 9110, 8.8.3), and `Vary`
names the header that chooses. A client that has the document, under either tag, gets 304. The files
of a page are such documents, read once.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

from aiohttp import web

from stream_app.web.refusals import refused

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/vnd.microsoft.icon",
    ".txt": "text/plain; charset=utf-8",
}
_GZIP = "-gzip"
_LEVEL = 6
_CODING = re.compile(r"\s*([\w*-]+)\s*(?:;\s*q\s*=\s*([0-9.]{1,6})\s*)?", re.ASCII)
_NAME = re.compile(r"[\w.-]{1,40}", re.ASCII)


@dataclass(frozen=True, eq=False)
class Document:
    """One version of a document: its tag without quotes, and its bytes in both encodings."""

    digest: str
    content_type: str
    plain: bytes = field(repr=False)
    packed: bytes = field(repr=False)

    @classmethod
    def made(cls, plain: bytes, content_type: str) -> Document:
        """Return the document of these bytes; it takes some ms for each MB, so call it in a
        thread where it is large."""
        digest = blake2b(plain, digest_size=16).hexdigest()
        return cls(digest, content_type, plain, gzip.compress(plain, _LEVEL, mtime=0))

    def answer(self, request: web.Request) -> web.Response:
        """Return the document as this client takes it, or 304 where the client has it."""
        packed = accepts_gzip(request.headers.get("Accept-Encoding", ""))
        headers = {
            "ETag": f'"{self.digest}{_GZIP if packed else ""}"',
            "Cache-Control": "no-cache",
            "Vary": "Accept-Encoding",
            "Content-Type": self.content_type,
        }
        # Tags up to the first that is none are compared, weakly; `*` stands for any document.
        for tag in request.if_none_match or ():
            if tag.value in ("*", self.digest, self.digest + _GZIP):
                del headers["Content-Type"]
                return web.Response(status=304, headers=headers)
        if packed:
            headers["Content-Encoding"] = "gzip"
        body = self.packed if packed else self.plain
        return web.Response(body=body, headers=headers)


def page_files(places: Iterable[Path]) -> dict[str, Document]:
    """Return the files of a page by their path below its folder, the first of `places` that is
    there."""
    folder = next((place for place in places if place.is_dir()), None)
    if folder is None:
        return {}
    return {
        path.relative_to(folder).as_posix(): Document.made(path.read_bytes(), TYPES[path.suffix])
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix in TYPES
    }


def nothing_yet() -> web.Response:
    """Return the answer for a document that will come: 204, no error of the client."""
    return web.Response(status=204, headers={"Cache-Control": "no-store"})


def accepts_gzip(header: str) -> bool:
    """Return whether a client with this Accept-Encoding takes gzip; without the header, or one
    that cannot be read, it gets plain bytes."""
    weights: dict[str, float] = {}
    for part in header.split(","):
        found = _CODING.fullmatch(part)
        if found is not None:
            try:
                weights[found[1].lower()] = float(found[2] or 1)
            except ValueError:
                continue
    return weights.get("gzip", weights.get("*", 0.0)) > 0


def parameters_refused(request: web.Request) -> web.Response | None:
    """Return the refusal of a request with query parameters; None without any."""
    for name in request.query:
        shown = name if _NAME.fullmatch(name) else "with an unusual name"
        return refused(
            400,
            "query",
            f"query parameter {shown}: {request.path} has none; it is the same for every client, "
            "so that a request shows nothing of its user",
        )
    return None

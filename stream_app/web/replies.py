"""The one form of every refusal, and the headers of every reply that strangers get.

    {"error": sentence, "reason": reason}        a sentence for people, a reason for programs

A refusal never repeats a value that the client sent; at most the plain name of a query parameter,
or the host name that is not served.
"""

from __future__ import annotations

import json

from aiohttp import web

SECURITY = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; object-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Server": "murmurec",
}


def refused(status: int, reason: str, sentence: str, **headers: str) -> web.Response:
    """Return a refusal; `headers` by their names with `_` for `-`, as in `Retry_After="1"`."""
    return web.Response(
        status=status,
        body=json.dumps(
            {"error": sentence, "reason": reason}, ensure_ascii=False, separators=(",", ":")
        ).encode(),
        content_type="application/json",
        headers={name.replace("_", "-"): value for name, value in headers.items()},
    )

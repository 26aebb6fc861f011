"""Which requests a server answers, the one form of every refusal, and the headers of every reply.

    {"error": sentence, "reason": reason}        a sentence for people, a reason for programs

A refusal never repeats a value that the client sent; at most the plain name of a query parameter,
or the host name that is not served. `held`: of what stands in the place of what was sent.

    Host     an IP address, `localhost`, or a name of the settings (`admin_hosts`, `gateway_hosts`)
    token    `Authorization: Bearer` with the setting `admin_token`, for all pages but /livez and
             /readyz; the gateway has none, an edge its own

A web page of another origin can have a browser send requests to a port on loopback, under a name
of its own that it lets point there (DNS rebinding), and then read the replies. The browser puts
that name into `Host`; it is never an IP address, so addresses need no list.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import re
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web

SECURITY = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; object-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Server": "murmurec",
}


def refused(
    status: int, reason: str, sentence: str, *, held: str = "", **headers: str
) -> web.Response:
    """Return a refusal; `headers` by their names with `_` for `-`, as in `Retry_After="1"`."""
    body = {"error": sentence, "reason": reason} | ({"held": held} if held else {})
    return web.Response(
        status=status,
        body=json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(),
        content_type="application/json",
        headers={name.replace("_", "-"): value for name, value in headers.items()},
    )


def places(error: BaseException) -> list[str]:
    """Return file:line of the last frames of a defect, for a log: its message and its variables may
    hold what a client sent."""
    steps = traceback.extract_tb(error.__traceback__)[-5:]
    return [f"{step.filename.rpartition('/')[2]}:{step.lineno}" for step in steps]


OPEN = frozenset({"/livez", "/readyz"})
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]]+)(?::[0-9]{1,5})?")
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Access:
    """The names under which the port answers, the token that it asks for, the setting of the
    names, the pages without a token, and the setting of the token."""

    names: frozenset[str]
    token: str | None = None
    setting: str = "admin_hosts"
    pages: frozenset[str] = OPEN
    token_setting: str = "admin_token"

    def refusal(self, path: str, host: str | None, authorization: str | None) -> tuple[int, str]:
        """Return the status and the sentence for a request that is not answered; (0, "") else."""
        if not self._is_served(host):
            return 421, (
                f"host {(host or 'missing')[:100]!r} is not served here: use the IP address, or "
                f"add the name to {self.setting}"
            )
        if self.token is not None and path not in self.pages and not self._is_known(authorization):
            return 401, (
                f"send the header Authorization: Bearer with the value of {self.token_setting}"
            )
        return 0, ""

    def _is_served(self, host: str | None) -> bool:
        found = _HOST.fullmatch(host or "")
        if found is None:
            return False
        name = found[1].strip("[]").lower().removesuffix(".")
        if name in self.names or name == "localhost":
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def _is_known(self, authorization: str | None) -> bool:
        expected = f"Bearer {self.token}".encode()
        given = (authorization or "").encode("utf-8", "surrogateescape")
        return hmac.compare_digest(given, expected)

    @web.middleware
    async def checked(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Answer a request that is refused with its sentence, any other by its view."""
        headers = request.headers
        status, sentence = self.refusal(
            request.path, headers.get("Host"), headers.get("Authorization")
        )
        if not status:
            return await handler(request)
        if status == 401:
            return refused(status, "token", sentence, WWW_Authenticate="Bearer")
        return refused(status, "host", sentence)

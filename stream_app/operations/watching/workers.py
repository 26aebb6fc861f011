"""Reads the pages of a running worker or gateway: the state that it reports at `/state`, and
others."""

from __future__ import annotations

import urllib.error
import urllib.request
from http.client import HTTPException
from typing import TypeVar

import msgspec

from stream_app.errors import UsageError, UserError
from stream_app.wire.state_records import StateOrigin

_SECONDS = 15.0
_LONGEST = 1 << 20
_REFUSED = (400, 401, 409, 421, 429, 503)
Reply = TypeVar("Reply")


class ReportedState(msgspec.Struct, frozen=True):
    """The comparable part of `/state`; all fields are of one cut."""

    cut: int
    positions: tuple[int, ...]
    model_digest: str
    ledger_digest: str
    design_digest: str
    origin: StateOrigin = msgspec.field(name="base")


class _Refusal(msgspec.Struct, frozen=True):
    """What is answered where a request is refused."""

    error: str


def ask(url: str, token: str | None = None) -> ReportedState:
    """Return the state that the worker at `url` reports; refuses a URL without a worker."""
    return asked(url, "/state", token, ReportedState)


def asked(url: str, path: str, token: str | None, kind: type[Reply]) -> Reply:
    """Return what a page says; refuses a URL without a listener, with another server, or with a
    reply of another form."""
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"{url} is no address: give one such as http://127.0.0.1:8470")
    try:
        return msgspec.json.decode(page(url, path, token, _SECONDS), type=kind)
    except (OSError, HTTPException, ValueError):
        raise UserError(
            f"nothing shows {path} at {url} within {_SECONDS:.0f} s: start the worker or gateway, "
            "or give the address of its --admin-port or --port"
        ) from None


def page(url: str, path: str, token: str | None, seconds: float) -> bytes:
    """Return a page of what runs at `url`; OSError, HTTPException or ValueError without one.

    Raises UserError with the sentence of the other side where it refuses the token, the host or
    what is asked for, or cannot answer now.
    """
    request = urllib.request.Request(url.rstrip("/") + path)
    if token is not None:
        # Not part of a request to another address that the reply may redirect to.
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=seconds) as reply:
            return bytes(reply.read(_LONGEST))
    except urllib.error.HTTPError as error:
        if error.code not in _REFUSED:
            raise
        sentence = msgspec.json.decode(error.read(_LONGEST), type=_Refusal).error
        raise UserError(f"{url}: {sentence}") from None

"""Reads the state that a running worker reports at `/state`."""

from __future__ import annotations

import urllib.request
from http.client import HTTPException

import msgspec

from stream_app.errors import UserError
from stream_app.wire.state_records import StateOrigin

_SECONDS = 15.0
_LONGEST = 1 << 20


class ReportedState(msgspec.Struct, frozen=True):
    """The comparable part of `/state`; all fields are of one cut."""

    cut: int
    positions: tuple[int, ...]
    model_digest: str
    ledger_digest: str
    design_digest: str
    origin: StateOrigin = msgspec.field(name="base")


def ask(url: str) -> ReportedState:
    """Return the state that the worker at `url` reports; refuses a URL without a worker."""
    if not url.startswith(("http://", "https://")):
        raise UserError(f"--worker {url}: give an address such as http://127.0.0.1:8470")
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/state", timeout=_SECONDS) as reply:
            return msgspec.json.decode(reply.read(_LONGEST), type=ReportedState)
    except (OSError, HTTPException, ValueError):
        # No listener, another server, an invalid URL, or a reply without a state.
        raise UserError(
            f"no worker showed its state at {url}: is one running there "
            "(murmurec worker --admin-port), and is it ready?"
        ) from None

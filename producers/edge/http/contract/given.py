"""What a request gives, checked by the table of endpoints; anything else is refused.

Paths are read from their raw form: `/users/a%2Fb` is the user `a/b`, and text that is not UTF-8 is
refused instead of being replaced. Ids of a path may be in the query instead
(`Endpoint.by_query`). A sentence names a parameter of the table and its limit, and
repeats nothing that was sent.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, unquote_to_bytes

from aiohttp import web

from producers.edge.events.event import item_id, user_id
from producers.edge.http.contract.edge_endpoints import (
    REASONS,
    Endpoint,
    Parameter,
)

_MOST_FIELDS = 1000  # of a query
_MOST_EXCLUDED = 500
# What curl sends where no type is given: the body says what it is.
_UNNAMED = ("", "application/x-www-form-urlencoded", "application/octet-stream")
_IN_FLIGHT = 96 << 20  # bytes of all bodies that are read or decoded at once


class Refused(Exception):
    """A request is refused: its status, its reason, one sentence."""

    def __init__(self, status: int, reason: str, sentence: str = "", **headers: str) -> None:
        super().__init__(sentence or REASONS[reason])
        self.status, self.reason, self.sentence = status, reason, sentence or REASONS[reason]
        self.headers = headers


def user_of(name: str | int) -> str:
    """Return a user's id as text."""
    return _id("user", user_id, name)


def item_of(name: str | int) -> str:
    """Return an item's id as text."""
    return _id("item", item_id, name)


def _id(what: str, form: Callable[[object], str], name: object) -> str:
    try:
        return form(name)
    except ValueError as error:
        raise Refused(400, "id", f"{what}: {error}") from None


IDS: Mapping[str, Callable[[str], str]] = {"user": user_of, "item": item_of}


def parameters(request: web.Request, endpoint: Endpoint) -> dict[str, Any]:
    """Return the values of an endpoint's parameters by name; absent ones are left out."""
    found: dict[str, Any] = {}
    names, parts = endpoint.path.split("/"), request.rel_url.raw_path.split("/")
    if len(parts) < len(names) and endpoint.by_query is not None:
        endpoint = endpoint.by_query
        names = endpoint.path.split("/")
    for name, part in zip(names, parts, strict=True):
        if name.startswith("{"):
            found[name[1:-1]] = _segment(name[1:-1], part)
    known = {each.name: each for each in endpoint.parameters if each.place == "query"}
    for name, text in _query(request):
        if name not in known:
            sentence = f"give {', '.join(known)}" if known else "this endpoint has none"
            raise Refused(400, "query", f"a parameter is not known here: {sentence}")
        value = IDS[name](text) if name in IDS else _value(known[name], text)
        if known[name].many:
            found.setdefault(name, []).append(value)
            if len(found[name]) > _MOST_EXCLUDED:
                raise Refused(400, "query", f"{name}: give at most {_MOST_EXCLUDED}")
        elif name in found:
            raise Refused(400, "query", f"{name}: give it once")
        else:
            found[name] = value
    for name in known:
        if name in IDS and name not in found:
            raise Refused(400, "id", f"{name}: give it in the query")
    return found


def _segment(name: str, part: str) -> str:
    try:
        text = unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        raise Refused(400, "id") from None
    return IDS[name](text) if name in IDS else text


def _query(request: web.Request) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            request.rel_url.raw_query_string,
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MOST_FIELDS,
        )
    except ValueError:
        raise Refused(400, "query", "the query is not UTF-8, or has too many fields") from None


def _value(parameter: Parameter, text: str) -> Any:
    kind = parameter.schema["type"]
    value: Any = text
    try:
        if kind == "integer" and text.isascii() and len(text) < 10:
            value = int(text)
        elif kind == "number" and text.isascii() and len(text) < 20:
            value = float(text)
    except ValueError:
        pass
    return checked(parameter, value)


def checked(parameter: Parameter, value: Any) -> Any:
    """Return a value of a parameter's type and range; refuses any other."""
    schema, name = parameter.schema, parameter.name
    if schema["type"] == "string":
        if "enum" in schema and value not in schema["enum"]:
            raise Refused(400, "query", f"{name}: give {' or '.join(schema['enum'])}")
        least, most = schema.get("minLength", 0), schema.get("maxLength", math.inf)
        if not isinstance(value, str) or not least <= len(value) <= most or "\0" in value:
            raise Refused(400, "query", f"{name}: give a text of {least} to {most} characters")
        return value
    kinds = (int,) if schema["type"] == "integer" else (int, float)
    low, high = schema["minimum"], schema["maximum"]
    if not isinstance(value, kinds) or not low <= value <= high:
        whole = "a whole number" if schema["type"] == "integer" else "a number"
        raise Refused(400, "query", f"{name}: give {whole} from {low} to {high}")
    return value


class Bodies:
    """Reads bodies: each as long as its endpoint takes, all together at most `_IN_FLIGHT` bytes."""

    def __init__(self, most: int = _IN_FLIGHT) -> None:
        self._left = most

    @asynccontextmanager
    async def read(
        self, request: web.Request, endpoint: Endpoint
    ) -> AsyncIterator[tuple[bytes, str]]:
        """Give the body and its content type, for whose block the bytes are counted."""
        kind = _content_type(request.headers, endpoint)
        most = endpoint.most_bytes
        announced = request.content_length
        if announced is not None and announced > most:
            raise _too_large(most)
        counted = most if announced is None else announced
        if counted > self._left:
            raise Refused(503, "busy", Retry_After="1")
        self._left -= counted
        try:
            yield await _bytes(request, most), kind
        finally:
            self._left += counted


def _content_type(headers: Mapping[str, str], endpoint: Endpoint) -> str:
    kind = headers.get("Content-Type", "").partition(";")[0].strip().lower()
    known = kind in endpoint.takes or kind in _UNNAMED
    if not known or headers.get("Content-Encoding", "identity") != "identity":
        sentence = f"send {' or '.join(endpoint.takes)} as Content-Type, without an encoding"
        raise Refused(415, "content_type", sentence)
    return "" if kind in _UNNAMED else kind


async def _bytes(request: web.Request, most: int) -> bytes:
    found = bytearray()
    async for chunk in request.content.iter_any():
        found += chunk
        if len(found) > most:
            raise _too_large(most)
    return bytes(found)


def _too_large(most: int) -> Refused:
    return Refused(413, "too_large", f"the body is larger than {most} bytes: send less at once")

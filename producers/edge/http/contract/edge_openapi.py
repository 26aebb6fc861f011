"""The OpenAPI 3.1 document of an edge and its page /docs, both made from the table of endpoints."""

from __future__ import annotations

import json
from html import escape
from types import UnionType
from typing import Any, get_args

import msgspec

from producers.edge.http.contract import JSON, edge_bodies
from producers.edge.http.contract.edge_endpoints import (
    COMMON,
    ENDPOINTS,
    REASONS,
    Endpoint,
    Parameter,
)
from stream_app import __version__

_PLACE = "#/components/schemas/"
TITLE = "murmurec edge"
NOTES = (
    "The edge belongs to the site: it takes plain events and user ids, and asks for the token of "
    "the site's programs, if MURMUREC_EDGE_TOKEN is set. Browsers of visitors do not call it.",
    "What leaves the site is sanitized by a mechanism and paid from each user's budget: GET "
    "/status says on which terms, GET /users/{user} what left of a user.",
    "Ids are any text, compared byte by byte; an integer is its decimal text. Clients change a "
    "path such as /users/.. before they send it: an id may be in the query instead, as in "
    "/users?user=.., /because?user=..&item=SKU-2571, /export?user=..",
)
_TAGS = {
    "events": "What users did.",
    "lists": "What to show next.",
    "catalogue": "The site's items.",
    "users": "What is known of a user; deletion and export.",
    "operation": "For operators and their tools.",
    "pages": "Pages and documents.",
}


def openapi() -> dict[str, Any]:
    """Return the document."""
    kinds: list[Any] = [edge_bodies.Refusal]
    for each in ENDPOINTS:
        for kind in filter(None, (each.body, each.asks, *each.other.values())):
            kinds += get_args(kind) if isinstance(kind, UnionType) else [kind]
    _, schemas = msgspec.json.schema_components(kinds, ref_template=_PLACE + "{name}")
    paths: dict[str, dict[str, Any]] = {}
    for each in ENDPOINTS:
        for form in filter(None, (each, each.by_query)):
            paths.setdefault(form.path, {})[form.method.lower()] = _operation(form)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": TITLE,
            "summary": "Private recommendations for a site that knows its own users.",
            "description": " ".join(NOTES),
            "version": __version__,
            "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "the edge that gave this document"}],
        "security": [{"token": []}, {}],
        "tags": [{"name": name, "description": text} for name, text in _TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": endpoint.name,
        "tags": [endpoint.tag],
        "summary": endpoint.summary,
        "description": endpoint.text,
    }
    if endpoint.open:
        found["security"] = []
    if endpoint.parameters:
        found["parameters"] = [_parameter(each) for each in endpoint.parameters]
    if endpoint.takes:
        found["requestBody"] = {
            "required": True,
            "content": {kind: _taken(endpoint, kind) for kind in endpoint.takes},
        }
    media = _schema(endpoint.body) if endpoint.body else {"type": "string"}
    replies = {
        str(endpoint.status): {
            "description": endpoint.summary,
            "content": {endpoint.content_type: {"schema": media}},
        }
    }
    refusals = {**COMMON, **endpoint.refusals}
    for status, reasons in refusals.items():
        replies[str(status)] = _refused(status, {*reasons, *COMMON.get(status, ())})
    for status, kind in endpoint.other.items():
        content = {JSON: {"schema": {"anyOf": [_schema(kind), _schema(edge_bodies.Refusal)]}}}
        replies[str(status)] = {"description": "see `reason`", "content": content}
    found["responses"] = dict(sorted(replies.items()))
    return found


def _schema(kind: Any) -> dict[str, Any]:
    """Return a reference to a type, to either of two, or the schema of any object."""
    if kind is edge_bodies.JsonObject:
        return {"type": "object"}
    if isinstance(kind, UnionType):
        return {"anyOf": [_schema(each) for each in get_args(kind)]}
    return {"$ref": _PLACE + kind.__name__}


def _taken(endpoint: Endpoint, kind: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    if kind == JSON:
        schema = _schema(endpoint.asks) if endpoint.asks else {"type": ["object", "array"]}
    if kind != endpoint.takes[0]:
        return {"schema": schema}
    return {"schema": schema, "example": _value(endpoint.example, kind)}


def _value(example: str, kind: str) -> Any:
    return json.loads(example) if kind == JSON else example


def _parameter(parameter: Parameter) -> dict[str, Any]:
    schema, example = dict(parameter.schema), parameter.example
    value: Any = json.loads(example) if schema["type"] in ("integer", "number") else example
    if parameter.many:
        schema, value = {"type": "array", "items": schema}, [value]
    return {
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.required,
        "description": parameter.text,
        "schema": schema,
        "example": value,
    }


def _refused(status: int, reasons: set[str]) -> dict[str, Any]:
    names = sorted(reasons)
    enum = {"properties": {"reason": {"enum": names}}}
    found: dict[str, Any] = {
        "description": "; ".join(f"{name}: {REASONS[name]}" for name in names),
        "content": {JSON: {"schema": {"allOf": [_schema(edge_bodies.Refusal), enum]}}},
    }
    if status == 503:
        text = {"description": "seconds to wait", "schema": {"type": "string"}}
        found["headers"] = {"Retry-After": text}
    return found


def page() -> bytes:
    """Return /docs: the table for people, with a call of each endpoint, without scripts."""
    notes = "".join(f"<li>{escape(note)}</li>" for note in NOTES)
    parts = "".join(
        f"<h2>{escape(tag)}</h2><p>{escape(text)}</p>"
        + "".join(_article(each) for each in ENDPOINTS if each.tag == tag)
        for tag, text in _TAGS.items()
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{TITLE}: the contract</title><link rel="icon" href="data:,">'
        '<link rel="stylesheet" href="/web/edge.css"></head><body><main class="docs">'
        f"<h1>{TITLE}: the contract</h1><ul>{notes}</ul>"
        '<p><a href="/">The page</a>, <a href="/openapi.json">OpenAPI 3.1</a></p>'
        f"<pre>EDGE=http://127.0.0.1:8490</pre>{parts}</main></body></html>\n"
    ).encode()


def _article(endpoint: Endpoint) -> str:
    rows = "".join(
        f"<li><b>{each.name}</b> {escape(each.text)}{', several times' if each.many else ''}: "
        f"<code>{escape(each.example)}</code></li>"
        for each in endpoint.parameters
    )
    reasons = ", ".join(
        f"{status} {', '.join(names)}" for status, names in sorted(endpoint.refusals.items())
    )
    return (
        f'<article id="{endpoint.name}"><h3>{endpoint.method} {escape(endpoint.path)}</h3>'
        f"<p>{escape(endpoint.summary)}. {escape(endpoint.text)}</p><ul>{rows}</ul>"
        f"<pre>{escape(call(endpoint))}</pre>"
        + (f"<p>Refusals: {escape(reasons)}</p>" if reasons else "")
        + "</article>"
    )


def call(endpoint: Endpoint) -> str:
    """Return the example of an endpoint as a command of curl."""
    path = endpoint.path
    for each in endpoint.parameters:
        path = path.replace(f"{{{each.name}}}", each.example)
    words = ["curl -sS"]
    if endpoint.method not in ("GET", "POST"):
        words.append(f"-X {endpoint.method}")
    words.append(f'"$EDGE{path}"')
    if endpoint.takes:
        body = endpoint.example.rstrip("\n")
        words.append(f"-H 'Content-Type: {endpoint.takes[0]}' --data-binary '{body}'")
    return " ".join(words)

"""/docs: the contract as one page for people, made on the server, without scripts.

The page shows the values of the OpenAPI and of the AsyncAPI document as nested lists. The id of a
part is its JSON pointer, so a reference within a document is a link on the page.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from stream_app.gateway.contract.endpoints import ENDPOINTS
from stream_app.gateway.contract.openapi import NOTES
from stream_app.gateway.contract.reasons import OF_HTTP, OF_REFUSALS, OF_THE_WIRE
from stream_app.gateway.contract.usage import USAGE
from stream_app.wire import Reason

STYLE_PATH = "/web/docs.css"
_OPEN_BYTES = 200  # a value whose JSON is longer is folded
_SECTIONS = {
    "start": "Start",
    "endpoints": "Endpoints",
    "reasons": "Reason codes",
    "responses": "Refusals of every endpoint",
    "topics": "Topics",
    "messages": "Messages",
    "types": "Types and fields",
}
_LEAD = (
    "A device sends what it rated and a noised report of how, never the rating itself. The "
    "gateway writes it to Kafka, and hands out what is public."
)
_REFUSAL = (
    '<p>A refusal is <code>{"error": a sentence, "reason": a code}</code> and never repeats a '
    "value that was sent. Reasons of the topic alone are published on the topic of rejections, "
    "with the place of the record.</p>"
)


def page(openapi: Mapping[str, Any], asyncapi: Mapping[str, Any], schemas: Iterable[str]) -> bytes:
    """Return the page for the two documents and the names of the JSON Schemas of a deployment."""
    types = openapi["components"]["schemas"] | asyncapi["components"]["schemas"]
    paths = openapi["paths"]
    sections = {
        "start": _usage(),
        "endpoints": "".join(
            _part(each.name, f"{each.method} {each.path}", paths[each.path][each.method.lower()])
            for each in ENDPOINTS
        ),
        "reasons": _REFUSAL + _reasons(),
        "responses": _parts("/components/responses", openapi["components"]["responses"]),
        "topics": _parts("/channels", asyncapi["channels"]),
        "messages": _parts("/components/messages", asyncapi["components"]["messages"]),
        "types": _parts("/components/schemas", dict(sorted(types.items()))),
    }
    files = ", ".join(_link(f"/schemas/{name}.json", name) for name in schemas)
    body = "".join(f'<h2 id="{name}">{_SECTIONS[name]}</h2>{sections[name]}' for name in _SECTIONS)
    contents = "".join(f"<li>{_link(f'#{name}', title)}</li>" for name, title in _SECTIONS.items())
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<title>murmurec: the contract</title><link rel="icon" href="data:,">'
        f'<link rel="stylesheet" href="{STYLE_PATH}"></head><body>'
        f'<nav aria-label="Contents"><ul>{contents}<li>{_link("/", "The page")}</li></ul></nav>'
        f"<main><h1>murmurec: the contract</h1><p>{escape(_LEAD)}</p>"
        f"<ul>{''.join(f'<li>{escape(note)}</li>' for note in NOTES)}</ul>"
        f"<p>For tools: {_link('/openapi.json', 'OpenAPI 3.1')}, "
        f"{_link('/asyncapi.json', 'AsyncAPI 3.0')}, and JSON Schemas: {files}. The same files "
        "without a gateway: <code>murmurec schemas --out FOLDER</code>.</p>"
        f"{body}</main></body></html>\n"
    ).encode()


def _link(place: str, text: str) -> str:
    return f'<a href="{escape(place)}">{escape(text)}</a>'


def _parts(pointer: str, values: Mapping[str, Any]) -> str:
    return "".join(_part(f"{pointer}/{name}", name, value) for name, value in values.items())


def _part(place: str, title: str, value: Mapping[str, Any]) -> str:
    return f'<article id="{place}"><h3>{escape(title)}</h3>{_shown(value)}</article>'


def _shown(value: Any) -> str:
    """Return a JSON value as HTML; long values are folded."""
    if isinstance(value, dict):
        if isinstance(reference := value.get("$ref"), str) and len(value) == 1:
            return _link(reference, reference.rpartition("/")[2])
        rows = (_row(name, each) for name, each in value.items())
        return f"<ul>{''.join(rows)}</ul>"
    if isinstance(value, list):
        if any(isinstance(each, dict | list) for each in value):
            return f"<ul>{''.join(f'<li>{_shown(each)}</li>' for each in value)}</ul>"
        return ", ".join(map(_shown, value))
    return escape(value if isinstance(value, str) else json.dumps(value))


def _row(name: str, value: Any) -> str:
    shown, title = _shown(value), escape(name)
    if isinstance(value, dict | list) and len(json.dumps(value)) > _OPEN_BYTES:
        return f"<li><details><summary>{title}</summary>{shown}</details></li>"
    return f"<li><b>{title}</b> {shown}</li>"


def _usage() -> str:
    shown = (
        f'<h3>{escape(title)}</h3><pre id="use-{name}" tabindex="0">'
        f"<code>{escape(code)}</code></pre>"
        for name, title, _, code in USAGE
    )
    return f"<pre><code>GATEWAY=http://127.0.0.1:8480</code></pre>{''.join(shown)}"


def _reasons() -> str:
    rows = []
    for reason, sentence in (*OF_THE_WIRE.items(), *OF_HTTP.items()):
        if reason is Reason.ACCEPTED:
            continue
        given = [
            _link(f"#{each.name}", each.path)
            for each in ENDPOINTS
            if any(reason in found for found in each.refusals.values())
        ]
        common = "every endpoint" if reason in OF_REFUSALS else "the topic alone"
        code = f'<b id="reason-{reason}">{reason}</b>'
        rows.append(f"<li>{code} {escape(sentence)} ({', '.join(given) or common})</li>")
    return f"<ul>{''.join(rows)}</ul>"

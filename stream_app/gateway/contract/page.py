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
from stream_app.gateway.contract.rejection_reasons import OF_HTTP, OF_REFUSALS, OF_THE_WIRE
from stream_app.gateway.contract.topic_messages import DEVICE
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

# The examples; a test runs each against a real gateway.
_SEND = (
    """curl -sS -H 'Content-Type: application/json' "$GATEWAY/reports" -d '{"v": 1,
  "device": "DEVICE", "seq": 1, "mechanism": "rr:5:2",
  "epoch": '$(($(date +%s) / 86400))', "items": [1193], "reports": [3]}'"""
).replace("DEVICE", DEVICE.hex())
_ALLOWED = 'curl -sS --compressed "$GATEWAY/mechanisms"'
_LIST = f'curl -sS "$GATEWAY/recommendations/{DEVICE.hex()}?k=5"'
_SIDE = 'curl -sS --compressed -o item-links.bin -w "%{http_code}\\n" "$GATEWAY/item-links"'
_STREAM = 'curl -sSN "$GATEWAY/stream"'

_DEVICE_JS = """const { Device } = await import("/web/device.js");
const device = await Device.open({ database: "docs" });

// The level (0 .. 4 for one to five stars) stays here; a report of it is drawn and recorded.
const film = { item: 1193, key: "00000000000004a9" };
await device.rate({ ...film, level: 4 });
const { waiting, problem } = await device.send();
const [{ place }] = await device.records(); // partition and offset in Kafka
"""
_RANKING_JS = """const { decodeSide, rank } = await import("/web/ranking.js");
const reply = await fetch("/item-links", { credentials: "omit" });
const side = reply.status === 200 ? decodeSide(await reply.arrayBuffer()) : null; // 204: later

// Nothing of this leaves the browser: all clients load the same bytes.
const history = [{ key: "00000000000004a9", stars: 5 }];
const list = side ? rank(side, history, 10) : [];
"""

# Name, title, language, code.
USAGE: tuple[tuple[str, str, str, str], ...] = (
    ("allowed", "What is allowed here, with the tables to draw from", "sh", _ALLOWED),
    (
        "send",
        "Send one event (this report is made up: a device draws it with the table)",
        "sh",
        _SEND,
    ),
    ("list", "A list by the workers, which shows them who asks", "sh", _LIST),
    ("side", "The item side, from which a device ranks by itself", "sh", _SIDE),
    ("watch", "Numbers of the whole stream", "sh", _STREAM),
    (
        "device",
        "A device in the browser (paste it into the console of this page)",
        "js",
        _DEVICE_JS,
    ),
    ("ranking", "A list that the browser ranks by itself", "js", _RANKING_JS),
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
        "without a gateway: <code>murmurec gateway --schemas FOLDER</code>.</p>"
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

"""The page, put together from the tables of endpoints, reasons, topics and fields."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from html import escape
from typing import Any

from stream_app.gateway.contract.endpoints import COMMON, ENDPOINTS, LATER, Endpoint
from stream_app.gateway.contract.examples import example
from stream_app.gateway.contract.openapi import NOTES
from stream_app.gateway.contract.reasons import OF_HTTP, OF_REFUSALS, OF_THE_WIRE
from stream_app.gateway.contract.schemas import BODIES, Schema
from stream_app.gateway.contract.shown.fields import tables
from stream_app.gateway.contract.shown.html import table
from stream_app.gateway.contract.shown.look import STYLE
from stream_app.gateway.contract.shown.usage import USAGE
from stream_app.wire import Reason

# The browser takes this style and no other; the rest of the policy is that of every reply.
STYLE_SOURCE = f"'sha256-{b64encode(sha256(STYLE.encode()).digest()).decode()}'"
_SECTIONS = {
    "start": "Start",
    "learns": "What the server learns",
    "endpoints": "Endpoints",
    "reasons": "Reason codes",
    "topics": "Topics",
    "types": "Types and fields",
}
_LEAD = (
    "A device sends what it rated and a noised report of how, never the rating itself. The "
    "gateway writes it to Kafka, and hands out what is public."
)


def page(asyncapi: Schema, schemas: dict[str, Schema]) -> bytes:
    """Return the page for the topics of a deployment."""
    body = "".join(
        (
            f'<h1>murmurec: the contract</h1><p class="lead">{escape(_LEAD)}</p>',
            f"<ul>{''.join(f'<li>{escape(note)}</li>' for note in NOTES)}</ul>",
            '<p>For tools: <a href="/openapi.json">OpenAPI 3.1</a>, '
            '<a href="/asyncapi.json">AsyncAPI 3.0</a>, and a JSON Schema of each message. The '
            "same files without a gateway: <code>murmurec schemas --out FOLDER</code>.</p>",
            _section("start", "".join(_usage())),
            _section("learns", _learns()),
            _section("endpoints", "".join(map(_endpoint, ENDPOINTS))),
            _section("reasons", _reasons()),
            _section("topics", _topics(asyncapi)),
            _section("types", "".join(tables(schemas))),
        )
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<title>murmurec: the contract</title><link rel="icon" href="data:,">'
        f"<style>{STYLE}</style></head><body>"
        '<a class="skip" href="#main">Skip to the contents</a>'
        f'<div class="frame">{_contents(schemas)}<main id="main">{body}</main></div>'
        "</body></html>\n"
    ).encode()


def _section(name: str, inner: str) -> str:
    return f'<section id="{name}"><h2>{_SECTIONS[name]}</h2>{inner}</section>'


def _contents(schemas: dict[str, Schema]) -> str:
    below = {
        "endpoints": [(each.name, each.path) for each in ENDPOINTS],
        "types": [(f"type-{name}", name) for name in schemas],
    }
    rows = []
    for name, title in _SECTIONS.items():
        links = "".join(
            f'<li><a href="#{place}">{escape(text)}</a></li>' for place, text in below.get(name, ())
        )
        inner = f"<ul>{links}</ul>" if links else ""
        rows.append(f'<li><a href="#{name}"><b>{title}</b></a>{inner}</li>')
    home = '<li><a href="/">The page</a></li>'
    return f'<nav aria-label="Contents"><ul>{"".join(rows)}{home}</ul></nav>'


def _usage() -> Iterable[str]:
    yield "<pre><code>GATEWAY=http://127.0.0.1:8480</code></pre>"
    for name, title, _, code in USAGE:
        shown = f'<pre id="use-{name}" tabindex="0"><code>{escape(code)}</code></pre>'
        yield f"<h3>{escape(title)}</h3>{shown}"


def _learns() -> str:
    rows = (
        (f'<a href="#{each.name}"><code>{escape(each.path)}</code></a>', escape(each.sees))
        for each in ENDPOINTS
    )
    return table(("Endpoint", "What a request shows"), rows)


def _endpoint(endpoint: Endpoint) -> str:
    parts = [
        f'<h3><span class="verb {endpoint.method}">{endpoint.method}</span>'
        f"<code>{escape(endpoint.path)}</code></h3>",
        f"<p>{escape(endpoint.summary)}.</p>",
    ]
    if endpoint.text:
        parts.append(f"<p>{escape(endpoint.text)}</p>")
    parts.append(f'<p class="sees"><b>The server learns:</b> {escape(endpoint.sees)}</p>')
    if endpoint.parameters:
        rows = (
            (
                f"<code>{each.name}</code>",
                f"{each.place}{', required' if each.required else ''}",
                f"{escape(each.text)}, such as <code>{escape(each.example)}</code>",
            )
            for each in endpoint.parameters
        )
        parts.append("<h4>Parameters</h4>" + table(("Name", "Where", "What"), rows))
    parts.append("<h4>Replies</h4>" + table(("Status", "Body"), _replies(endpoint)))
    if endpoint.body is not None:
        shown = json.dumps(example(endpoint.body), indent=1, ensure_ascii=False)
        parts.append(
            "<details><summary>Example of a reply</summary>"
            f'<pre tabindex="0"><code>{escape(shown)}</code></pre></details>'
        )
    return f'<article id="{endpoint.name}">{"".join(parts)}</article>'


def _replies(endpoint: Endpoint) -> Iterable[tuple[str, str]]:
    yield str(endpoint.status), _kind(endpoint.body, endpoint.content_type)
    for status, kind in endpoint.other.items():
        yield str(status), _kind(kind, "application/json")
    if endpoint.later:
        yield "204", LATER
    if endpoint.cached:
        yield "304", "the client has this version (If-None-Match)"
    for status, reasons in endpoint.refusals.items():
        yield str(status), _linked(reasons)
    yield (
        ", ".join(map(str, COMMON)),
        _linked(reason for each in COMMON.values() for reason in each),
    )


def _kind(kind: Any, content_type: str) -> str:
    name = next((name for name, each in BODIES.items() if each is kind), None)
    link = f'<a href="#type-{name}">{name}</a> as ' if name else ""
    return f"{link}{escape(content_type)}"


def _linked(reasons: Iterable[str]) -> str:
    return ", ".join(f'<a href="#reason-{reason}">{reason}</a>' for reason in reasons)


def _reasons() -> str:
    text = (
        "<p>A refusal is <code>{&quot;error&quot;: a sentence, &quot;reason&quot;: a code}</code> "
        "and never repeats a value that was sent. Reasons of the topic alone are published on the "
        "topic of rejections, with the place of the record.</p>"
    )
    rows = []
    for reason, sentence in (*OF_THE_WIRE.items(), *OF_HTTP.items()):
        if reason is Reason.ACCEPTED:
            continue
        where = [
            each for each in ENDPOINTS if any(reason in found for found in each.refusals.values())
        ]
        links = ", ".join(f'<a href="#{each.name}">{escape(each.path)}</a>' for each in where)
        common = "every endpoint" if reason in OF_REFUSALS else "the topic alone"
        code = f'<code id="reason-{reason}">{reason}</code>'
        rows.append((code, escape(sentence), links or common))
    return text + table(("Code", "Means", "Given by"), rows)


def _topics(asyncapi: Schema) -> str:
    rows = []
    for channel in asyncapi["channels"].values():
        kafka = channel["bindings"]["kafka"]
        policy = kafka["topicConfiguration"]["cleanup.policy"][0]
        kept = kafka["topicConfiguration"].get("retention.ms", -1)
        days = "kept without limit" if kept < 0 else f"kept for {kept / 3_600_000:g} h"
        messages = ", ".join(_message(asyncapi, name) for name in channel["messages"])
        rows.append(
            (
                f"<code>{escape(channel['address'])}</code>",
                escape(channel["description"]),
                f"{messages}<br>{kafka['partitions']} partition"
                f"{'s' if kafka['partitions'] > 1 else ''}, "
                f"{'newest of each key' if policy == 'compact' else days}",
            )
        )
    return table(("Topic", "What", "Messages"), rows)


def _message(asyncapi: Schema, name: str) -> str:
    found = asyncapi["components"]["messages"][name]
    kind = found["contentType"].rpartition("/")[2].removeprefix("vnd.")
    return (
        f'<a href="#type-{name}">{name}</a> ({kind})' if "payload" in found else f"{name} ({kind})"
    )

"""All documents as bytes by their paths on a gateway: the same bytes on every machine."""

from __future__ import annotations

import json
from typing import Any

from stream_app.gateway.contract.asyncapi import asyncapi
from stream_app.gateway.contract.openapi import openapi
from stream_app.gateway.contract.page import page
from stream_app.gateway.contract.schemas import schemas
from stream_app.wire import PARTITIONS, Topics


def documents(
    topics: Topics | None = None, partitions: int = PARTITIONS, query_partitions: int | None = None
) -> dict[str, bytes]:
    """Return `openapi.json`, `asyncapi.json`, `schemas/NAME.json` and the page `docs.html`; those
    of topics with the prefix and the partitions of a deployment."""
    of_http, of_types = openapi(), schemas()
    of_topics = asyncapi(topics or Topics(), partitions, query_partitions or partitions)
    found = {"openapi.json": of_http, "asyncapi.json": of_topics}
    found |= {f"schemas/{name}.json": schema for name, schema in of_types.items()}
    made = {path: encoded(value) for path, value in found.items()}
    return made | {"docs.html": page(of_http, of_topics, of_types)}


def encoded(value: Any) -> bytes:
    """Return a document as indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"

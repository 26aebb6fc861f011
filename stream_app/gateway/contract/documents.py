"""All documents as bytes by their paths on a gateway: the same bytes on every machine.

The AsyncAPI 3.0 document of the topics is made here, from their table and the types of messages.
"""

from __future__ import annotations

import json
from typing import Any

from stream_app import __version__
from stream_app.gateway.contract.openapi import openapi
from stream_app.gateway.contract.page import page
from stream_app.gateway.contract.schemas import components, schemas
from stream_app.gateway.contract.topic_messages import MESSAGES, OF_TOPICS, Message
from stream_app.wire import PARTITIONS, Topic, Topics
from stream_app.wire.signatures import TAG

_PLACE = "#/components/schemas/"
_BINDING = "0.5.0"
# Configuration that the binding knows as numbers and lists; any other is text.
_NUMBERS = ("retention.ms", "retention.bytes", "max.message.bytes", "delete.retention.ms")
# Read by a deployment and written by others: devices, readers, publishers of the catalogue.
_OF_OTHERS = ("ratings", "items", "queries", "contributions")
# Their records may carry the tag of their device.
_TAGGED = {name for topic in ("ratings", "contributions") for name in OF_TOPICS[topic]}
_TAG_TEXT = "16 bytes by which a device alone knows its own record; others look at nothing in it"

TITLE = "murmurec topics"
DESCRIPTION = (
    "Every topic of a deployment. Nothing on them is a rating as a person gave it: reports are "
    "noised on the device, contributions are sealed, and what workers publish is made from those. "
    "The partitioner of keys is murmur2, as in Java clients (murmur2_random in librdkafka). A "
    "record that breaks the contract is rejected with a reason code and never repeated."
)


def asyncapi(topics: Topics, partitions: int, query_partitions: int) -> dict[str, Any]:
    """Return the document of the topics of a prefix with so many partitions."""
    rows = {row.name: row for row in topics.table(partitions, query_partitions=query_partitions)}
    of_name = {name: rows[getattr(topics, name)] for name in OF_TOPICS}
    kinds = {message.name: message.kind for message in MESSAGES if message.kind is not None}
    schemas, parts = components(kinds.values(), _PLACE)
    payloads = dict(zip(kinds, schemas, strict=True))
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": TITLE,
            "version": __version__,
            "description": DESCRIPTION,
            "license": {"name": "Apache License 2.0"},
        },
        "defaultContentType": "application/json",
        "channels": {name: _channel(name, row) for name, row in of_name.items()},
        "operations": _operations(),
        "components": {
            "messages": {m.name: _message(m, payloads.get(m.name)) for m in MESSAGES},
            "schemas": parts,
        },
    }


def _channel(name: str, row: Topic) -> dict[str, Any]:
    configured: dict[str, Any] = {}
    for setting, value in row.config.items():
        configured[setting] = int(value) if setting in _NUMBERS else value
    if "cleanup.policy" in configured:
        configured["cleanup.policy"] = [configured["cleanup.policy"]]
    return {
        "address": row.name,
        "title": row.value,
        "description": f"{' '.join((getattr(Topics, name).__doc__ or '').split())} "
        f"Record key: {row.key}.",
        "messages": {
            message: {"$ref": f"#/components/messages/{message}"} for message in OF_TOPICS[name]
        },
        "bindings": {
            "kafka": {
                "topic": row.name,
                "partitions": row.partitions,
                "topicConfiguration": configured,
                "bindingVersion": _BINDING,
            }
        },
    }


def _message(message: Message, payload: dict[str, Any] | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": message.name,
        "title": message.name,
        "summary": message.summary,
        "contentType": message.content_type,
    }
    if message.name in _TAGGED:
        tag = {"type": "string", "format": "binary", "description": _TAG_TEXT}
        found["headers"] = {"type": "object", "properties": {TAG: tag}}
    if payload is not None:
        found["payload"] = payload
    if message.decoded is not None:
        found["examples"] = [{"name": message.name, "payload": message.decoded}]
    return found


def _operations() -> dict[str, Any]:
    """Return what a deployment does with each topic: workers, parties of campaigns, operators."""
    found: dict[str, Any] = {}
    for name in OF_TOPICS:
        action = "receive" if name in _OF_OTHERS else "send"
        found[f"{action}-{name.replace('_', '-')}"] = {
            "action": action,
            "channel": {"$ref": f"#/channels/{name}"},
        }
    found["receive-queries"]["reply"] = {"channel": {"$ref": "#/channels/recommendations"}}
    return found


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

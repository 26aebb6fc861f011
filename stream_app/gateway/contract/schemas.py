"""JSON Schemas (draft 2020-12) of every message and of every body, generated from the types.

A schema is what `msgspec` derives from a type, with the rules of `rules` and the version that a
decoder takes. What no schema can say stays with the decoder: rules of a deployment (its allow-list,
its topics), relations between fields, bytes of a text, and a field that is given twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

import msgspec

from stream_app.gateway.contract import bodies
from stream_app.gateway.contract.rules import RULES
from stream_app.gateway.contract.topic_messages import MESSAGES
from stream_app.wire import VERSION

Schema = dict[str, Any]

DRAFT = "https://json-schema.org/draft/2020-12/schema"
# Names of types that are clear beside a decoder, and not outside of it.
_RENAMED = {"JsonAny": "Event", "Packed": "PackedEvent"}
_PACKED = ", as MessagePack; bytes are in base64 here."
_DESCRIBED = {
    "Event": "The released ratings of one device, as JSON.",
    "PackedEvent": f"The released ratings of one device{_PACKED}",
}
_RATIONAL = "^[1-9][0-9]{0,19}(/[1-9][0-9]{0,19})?$"

# Name of a document -> the type of a reply of the gateway.
BODIES: Mapping[str, type[msgspec.Struct]] = {
    "accepted": bodies.Accepted,
    "refusal": bodies.Refusal,
    "catalogue": bodies.Catalogue,
    "mechanisms": bodies.Mechanisms,
    "campaign": bodies.CampaignStatus,
    "demo": bodies.DemoFacts,
    "item-list": bodies.ItemList,
    "stream-status": bodies.StreamStatus,
    "alive": bodies.Alive,
    "ready": bodies.Ready,
}


def components(kinds: Iterable[Any], place: str) -> tuple[list[Schema], dict[str, Schema]]:
    """Return a schema for each type, and the schemas of the structs that they refer to, by name.

    `place` is where these will stand, such as "#/$defs/".
    """
    found, parts = msgspec.json.schema_components(
        kinds, schema_hook=_rational, ref_template=place + "{name}"
    )
    schemas = _renamed(list(found), place)
    named = {_RENAMED.get(name, name): _renamed(part, place) for name, part in parts.items()}
    for name, part in named.items():
        _complete(name, part)
    return schemas, dict(sorted(named.items()))


def document(name: str, kind: Any, summary: str = "", example: Any = None) -> Schema:
    """Return the schema of one type as a document of its own."""
    (schema,), parts = components([kind], "#/$defs/")
    head: Schema = {"$schema": DRAFT, "$id": f"urn:murmurec:schema:{name}"}
    reference = schema.get("$ref", "").removeprefix("#/$defs/")
    if reference and f'"#/$defs/{reference}"' not in str(msgspec.json.encode(parts)):
        schema = parts.pop(reference)
    head |= {"title": name}
    described = {"description": summary} if summary and "description" not in schema else {}
    body = {key: value for key, value in schema.items() if key != "title"}
    examples = {} if example is None else {"examples": [example]}
    return head | described | body | examples | ({"$defs": parts} if parts else {})


def schemas() -> dict[str, Schema]:
    """Return the documents by name: of messages, then of bodies."""
    found = {
        message.name: document(message.name, message.kind, message.summary, message.decoded)
        for message in MESSAGES
        if message.kind is not None
    }
    return found | {name: document(name, kind) for name, kind in BODIES.items()}


def _rational(kind: type) -> Schema:
    if kind is Fraction:
        return {"type": "string", "pattern": _RATIONAL}
    raise NotImplementedError(f"{kind.__name__} has no form on the wire")


def _renamed(schema: Any, place: str) -> Any:
    """Return a schema in which references and titles have the names of `_RENAMED`, no discriminator
    is left, and a description is one line."""
    if isinstance(schema, list):
        return [_renamed(each, place) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _renamed(value, place) for key, value in schema.items() if key != "discriminator"}
    if isinstance(reference := found.get("$ref"), str):
        name = reference.removeprefix(place)
        found["$ref"] = place + _RENAMED.get(name, name)
    if isinstance(text := found.get("description"), str):
        found["description"] = re.sub(r"\s+", " ", text)
    return found


def _complete(name: str, part: Schema) -> None:
    """Add to the schema of a struct its rules and its version."""
    part["title"] = name
    if name in _DESCRIBED:
        part["description"] = _DESCRIBED[name]
    fields: dict[str, Schema] = part.get("properties", {})
    for field, rule in RULES.get(name, {}).items():
        sentence, more = (rule, {}) if isinstance(rule, str) else rule
        fields[field] = {"description": sentence, **_strict(fields[field], more)}
    if fields.get("v", {}).get("type") == "integer":
        known = {"const": VERSION, "description": "version of the format"}
        fields["v"] = {"type": "integer", **known}
    if name == "Cut":  # an entry without a kind is a cut
        part["required"].remove("kind")


def _strict(field: Schema, more: Mapping[str, Any]) -> Schema:
    return {key: value for key, value in field.items() if key != "description"} | dict(more)

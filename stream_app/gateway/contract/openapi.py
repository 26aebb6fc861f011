"""The OpenAPI 3.1 document of a gateway, made from the table of endpoints and the types, with an
example of every reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from stream_app import __version__
from stream_app.gateway.contract import bodies
from stream_app.gateway.contract.endpoints import (
    COMMON,
    ENDPOINTS,
    LATER,
    Endpoint,
    Parameter,
)
from stream_app.gateway.contract.rejection_reasons import meaning
from stream_app.gateway.contract.schemas import DRAFT, components
from stream_app.gateway.contract.topic_messages import BYTES, CUCKOO, DEVICE, EVENT, JSON
from stream_app.privacy import registry
from stream_app.wire.events import JsonAny

_PLACE = "#/components/schemas/"

TITLE = "murmurec gateway"
SUMMARY = "Private recommendations from a stream: HTTP in front of Kafka."
NOTES = (
    "No endpoint takes a rating: events hold reports that a device has noised, and the gateway is "
    "as untrusted as the server behind it.",
    "Public whatever epsilon is: that a device rated, which items, and on which day.",
    "No endpoint asks for a password or a token. Listen on loopback, or put a TLS proxy in front; "
    "pages of other sites may use it where gateway_origins names them.",
    "With devices = signed an event counts only with the signature of its device.",
    "A device may put a tag, 32 hex digits, behind the content type of an event or contribution "
    "(; tag=..): the record gets it, and a 409 shows it as held, so that the device knows its own.",
    "Integers go up to 2^63: above 2^53 JavaScript needs BigInt, or ids as text.",
)
TAGS = {
    "take part": "What a device needs to send events.",
    "lists": "Recommendations, by the device itself or by the workers.",
    "numbers": "Aggregates.",
    "pages": "Pages and documents.",
    "operation": "For operators and their tools.",
}

_SHAWSHANK = "Shawshank Redemption, The (1994)"


def _allowed(name: str) -> bodies.AllowedMechanism:
    found = registry.parse(name)
    (proof,), table = found.certify(), found.table()
    counts = None if table is None else table.counts
    return bodies.AllowedMechanism(
        id=found.id,
        family=found.family,
        levels=found.levels,
        epsilon=str(found.epsilon),
        adjacency=str(found.adjacency),
        protected=found.protected,
        observed=found.observed,
        limit=found.limit,
        certificate=proof.digest,
        counts=None if counts is None else tuple(tuple(map(str, row)) for row in counts),
        in_browser=True,
        why_not=None,
    )


_ITEM = bodies.CatalogueItem(1193, f"{1193:016x}", CUCKOO, ("Drama",), 1975, withdrawn=False)
_LISTED = bodies.ListedItem(318, _SHAWSHANK, ("Drama",), 1994, 4.41, 1193, CUCKOO)

EXAMPLES: Mapping[type[msgspec.Struct], msgspec.Struct] = {
    bodies.Accepted: bodies.Accepted(0, 123, duplicate=False),
    bodies.Catalogue: bodies.Catalogue((_ITEM,), 0),
    bodies.Mechanisms: bodies.Mechanisms(
        *("rr:5:2", "local", "open", "murmurec.ratings.v1", (_allowed("rr:5:2"),)),
        demo=False,
        grafana="http://127.0.0.1:3000",
    ),
    bodies.CampaignStatus: bodies.CampaignStatus("e30=", 0, "open", 4, 86_400.0, None),
    bodies.DemoFacts: bodies.DemoFacts(
        "local", 2000, 300_000, bodies.ListFigures(0.174, 0.145, 200, 0.01, 10)
    ),
    bodies.ItemList: bodies.ItemList(
        DEVICE.hex(),
        (_LISTED,),
        "links",
        4812,
        "local",
        catching_up=False,
        ndcg=0.1312,
        ndcg_popular=0.0857,
        for_="next",
    ),
    bodies.StreamStatus: bodies.StreamStatus(
        kafka=True,
        worker=True,
        ready=True,
        cut=4812,
        ratings_per_second=1250.0,
        ratings=1_000_209,
        devices=6040,
        rmse=0.93,
        rmse_baseline=0.98,
        ndcg=0.1312,
        ndcg_popular=0.0857,
        list_devices=412,
        list_method="links",
        lag_records=120,
        lag_seconds=0.4,
        privacy="local",
    ),
    bodies.Alive: bodies.Alive(alive=True),
    bodies.Ready: bodies.Ready(ready=True, waiting_for=None),
}


def openapi() -> dict[str, Any]:
    """Return the document."""
    replies = (kind for endpoint in ENDPOINTS for kind in (endpoint.body, *endpoint.other.values()))
    kinds = dict.fromkeys(kind for kind in replies if kind is not None)
    _, schemas = components([*kinds, bodies.Refusal, JsonAny], _PLACE)
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": TITLE,
            "summary": SUMMARY,
            "description": " ".join(NOTES),
            "version": __version__,
            "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
        },
        "jsonSchemaDialect": DRAFT,
        "servers": [{"url": "/", "description": "the gateway that gave this document"}],
        "security": [],
        "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": {
                str(reasons[0]): _refused(status, reasons) for status, reasons in COMMON.items()
            },
        },
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    text = f"{endpoint.text} " if endpoint.text else ""
    found: dict[str, Any] = {
        "operationId": endpoint.name,
        "tags": [endpoint.tag],
        "summary": endpoint.summary,
        "description": f"{text}What the server learns: {endpoint.sees}",
    }
    if endpoint.parameters:
        found["parameters"] = [_parameter(each) for each in endpoint.parameters]
    if endpoint.takes_event:
        found["requestBody"] = _event()
    elif endpoint.method == "POST":
        binary = {"schema": {"type": "string", "format": "binary"}}
        found["requestBody"] = {"required": True, "content": {endpoint.takes: binary}}
    found["responses"] = dict(sorted(_replies(endpoint).items()))
    return found


def _parameter(parameter: Parameter) -> dict[str, Any]:
    schema = dict(parameter.schema)
    value = int(parameter.example) if schema["type"] == "integer" else parameter.example
    return {
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.required,
        "description": parameter.text,
        "schema": schema,
        "example": value,
    }


def _event() -> dict[str, Any]:
    """Return the body of an event: an extension block would be a field of which a gateway cannot
    say that it was released."""
    event = {"allOf": [{"$ref": _PLACE + "Event"}, {"properties": {"x": False}}]}
    packed = "The event as MessagePack, or either form in the envelope of its signature."
    return {
        "required": True,
        "content": {
            JSON: {"schema": event, "examples": {"event": {"value": EVENT.decoded}}},
            BYTES: {"schema": {"type": "string", "format": "binary", "description": packed}},
        },
    }


def _replies(endpoint: Endpoint) -> dict[str, dict[str, Any]]:
    replies = {str(endpoint.status): _reply(endpoint)}
    for status, kind in endpoint.other.items():
        content = {JSON: {"schema": {"$ref": _PLACE + kind.__name__}}}
        replies[str(status)] = {"description": "not ready", "content": content}
    if endpoint.later:
        replies["204"] = {"description": LATER}
    if endpoint.cached:
        replies["304"] = {"description": "the client has this version (If-None-Match)"}
    for status, reasons in COMMON.items():
        replies[str(status)] = {"$ref": f"#/components/responses/{reasons[0]}"}
    for status, reasons in endpoint.refusals.items():
        replies[str(status)] = _refused(status, (*reasons, *COMMON.get(status, ())))
    return replies


def _reply(endpoint: Endpoint) -> dict[str, Any]:
    media: dict[str, Any] = {"schema": {"type": "string"}}
    if endpoint.body is not None:
        # The data of each event of a stream is one such value.
        media = {"schema": {"$ref": _PLACE + endpoint.body.__name__}}
        media["examples"] = {endpoint.name: {"value": msgspec.to_builtins(EXAMPLES[endpoint.body])}}
    elif endpoint.content_type == JSON:
        media = {"schema": {"type": "object"}}
    elif endpoint.content_type == BYTES:
        media = {"schema": {"type": "string", "format": "binary"}}
    found = {"description": endpoint.summary, "content": {endpoint.content_type: media}}
    if endpoint.cached:
        found["headers"] = {"ETag": _header("of this version, for If-None-Match")}
    return found


def _refused(status: int, reasons: Sequence[str]) -> dict[str, Any]:
    schema: Mapping[str, Any] = {
        "allOf": [
            {"$ref": _PLACE + "Refusal"},
            {"properties": {"reason": {"enum": [str(reason) for reason in reasons]}}},
        ]
    }
    examples = {str(reason): {"value": _refusal(reason)} for reason in reasons}
    found: dict[str, Any] = {
        "description": ", ".join(reasons),
        "content": {JSON: {"schema": schema, "examples": examples}},
    }
    if status in (429, 503):
        found["headers"] = {"Retry-After": _header("seconds to wait")}
    return found


def _header(text: str) -> dict[str, Any]:
    return {"description": text, "schema": {"type": "string"}}


def _refusal(reason: str) -> Any:
    """Return a refusal with this reason; a view may word its sentence more closely."""
    return msgspec.to_builtins(bodies.Refusal(meaning(reason), reason))

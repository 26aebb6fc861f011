"""OpenAPI and AsyncAPI: valid, the same bytes everywhere, and about the gateway that runs."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from stream_app.gateway.context import Gateway
from stream_app.gateway.contract.documents import documents
from stream_app.gateway.contract.endpoints import ENDPOINTS
from stream_app.gateway.contract.rejection_reasons import OF_REFUSALS
from stream_app.gateway.http_application import build
from stream_app.settings import Settings
from stream_app.wire import Topics
from tests.fixtures.gateways import running

MADE = documents()
OPENAPI = json.loads(MADE["openapi.json"])
ASYNCAPI = json.loads(MADE["asyncapi.json"])


def checker(document: dict[str, Any], schema: Any) -> Draft202012Validator:
    """Return a validator of a schema whose references lead into a document."""
    resource = Resource.from_contents(document, default_specification=DRAFT202012)
    registry: Registry[Any] = Registry().with_resource("urn:here", resource)
    pointed = json.loads(json.dumps(schema).replace('"$ref": "#/', '"$ref": "urn:here#/'))
    return Draft202012Validator(pointed, registry=registry)


def contents(reply: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    for media in reply.get("content", {}).values():
        for example in media.get("examples", {}).values():
            yield media["schema"], example["value"]


def test_the_openapi_document_is_valid() -> None:
    OpenAPIV31SpecValidator(OPENAPI).validate()
    for schema in OPENAPI["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


def test_every_example_of_it_fits_its_schema() -> None:
    shown, reasons = 0, set()
    replies = list(OPENAPI["components"]["responses"].values())
    for path in OPENAPI["paths"].values():
        for operation in path.values():
            replies += operation["responses"].values()
            replies += [operation["requestBody"]] if "requestBody" in operation else []
            for parameter in operation.get("parameters", ()):
                checker(OPENAPI, parameter["schema"]).validate(parameter["example"])
    for reply in replies:
        for schema, value in contents(reply):
            checker(OPENAPI, schema).validate(value)
            reasons.add(value.get("reason"))
            shown += 1
    assert shown > 40
    assert set(OF_REFUSALS) <= reasons


def test_an_event_with_an_extension_is_no_body_of_a_report() -> None:
    body = OPENAPI["paths"]["/reports"]["post"]["requestBody"]["content"]["application/json"]
    event = body["examples"]["event"]["value"]
    check = checker(OPENAPI, body["schema"])
    assert check.is_valid(event)
    assert not check.is_valid(event | {"x": {}})
    assert not check.is_valid(event | {"rating": 5})


def test_every_reference_of_the_asyncapi_document_leads_to_something() -> None:
    def references(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            yield from (each for name, each in value.items() if name == "$ref")
            for each in value.values():
                yield from references(each)
        elif isinstance(value, list):
            for each in value:
                yield from references(each)

    found = set(references(ASYNCAPI))
    assert len(found) > 40
    for reference in found:
        at = ASYNCAPI
        for step in reference.removeprefix("#/").split("/"):
            at = at[step]
    assert ASYNCAPI["asyncapi"] == "3.0.0"


def test_every_message_of_it_fits_its_payload() -> None:
    for message in ASYNCAPI["components"]["messages"].values():
        for example in message.get("examples", ()):
            checker(ASYNCAPI, message["payload"]).validate(example["payload"])


def test_the_asyncapi_document_is_about_the_topics_of_a_deployment() -> None:
    made = documents(Topics("shop"), 12, 3)
    channels = json.loads(made["asyncapi.json"])["channels"]
    table = {topic.name: topic for topic in Topics("shop").table(12, query_partitions=3)}
    assert {channel["address"] for channel in channels.values()} == set(table)
    for channel in channels.values():
        topic, binding = table[channel["address"]], channel["bindings"]["kafka"]
        assert binding["partitions"] == topic.partitions
        for name, value in binding["topicConfiguration"].items():
            assert topic.config[name] == (value[0] if isinstance(value, list) else str(value))
    assert {c["bindings"]["kafka"]["partitions"] for c in channels.values()} == {1, 3, 12}


def test_the_bytes_are_the_same_in_every_process() -> None:
    code = (
        "import sys; from stream_app.gateway.contract.documents import documents\n"
        "sys.stdout.buffer.write(b''.join(documents().values()))\n"
        "print([n for n in ('aiohttp', 'confluent_kafka') if n in sys.modules], file=sys.stderr)"
    )
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        )
        assert done.stdout == b"".join(MADE.values())
        assert done.stderr.strip() == b"[]"


# --- the gateway that runs ----------------------------------------------------------------------


@pytest.fixture
def routes() -> set[tuple[str, str]]:
    """Give method and path of every route of a real application."""

    async def made() -> web.Application:
        return build(Gateway.from_settings(Settings(bootstrap_servers="127.0.0.1:1")))

    found = asyncio.run(made()).router.routes()
    return {
        (route.method, route.resource.canonical)
        for route in found
        if route.resource is not None and route.method != "HEAD"
    }


def test_every_route_is_documented(routes: set[tuple[str, str]]) -> None:
    documented = {
        (method.upper(), path) for path, found in OPENAPI["paths"].items() for method in found
    }
    assert documented == {(each.method, each.path) for each in ENDPOINTS}
    assert routes == documented


def test_the_documents_are_served_and_known_by_their_tag() -> None:
    async def run() -> None:
        async with running() as at:
            for path in ("/openapi.json", "/asyncapi.json", "/schemas/event.json"):
                status, body, headers = await at.get(path)
                assert (status, headers["Content-Type"]) == (200, "application/json")
                assert body == MADE[path[1:]]
                assert (await at.get(path, If_None_Match=headers["ETag"]))[:2] == (304, b"")
            status, body, _ = await at.get("/schemas/other.json")
            assert (status, json.loads(body)["reason"]) == (404, "not_found")

    asyncio.run(run())

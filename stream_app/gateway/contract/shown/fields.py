"""The fields of every type in words, from its schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from typing import Any

from stream_app.gateway.contract.schemas import Schema
from stream_app.gateway.contract.shown.html import table

_PLACE = "#/$defs/"
_HEAD = ("Field", "Value", "Rule")


def tables(schemas: dict[str, Schema]) -> Iterator[str]:
    """Yield an article for each schema: its fields, and those of the types within."""
    for name, schema in schemas.items():
        parts = [
            f"<h3>{escape(name)}</h3><p>{escape(schema['description'])} "
            f'<a href="/schemas/{name}.json">JSON Schema</a></p>',
            _fields(schema),
        ]
        for inner, part in schema.get("$defs", {}).items():
            if "properties" in part:
                text = escape(part.get("description", ""))
                parts.append(f"<h4>{escape(inner)}</h4><p>{text}</p>{_fields(part)}")
        yield f'<article id="type-{name}">{"".join(parts)}</article>'


def _fields(schema: Schema) -> str:
    if "properties" not in schema:
        kinds = (each["$ref"].removeprefix(_PLACE) for each in schema.get("anyOf", ()))
        return f"<p>One of: {escape(', '.join(kinds))}.</p>"
    required = set(schema.get("required", ()))
    rows = (
        (
            f"<code>{escape(name)}</code>",
            escape(in_words(field)) + ("" if name in required else "; may be absent"),
            escape(field.get("description", "")),
        )
        for name, field in schema["properties"].items()
    )
    return table(_HEAD, rows)


def in_words(schema: Schema) -> str:
    """Return the values of a schema in words."""
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(_PLACE)
    if "anyOf" in schema:
        return " or ".join(map(in_words, schema["anyOf"]))
    if "const" in schema or "enum" in schema:
        values = [schema["const"]] if "const" in schema else schema["enum"]
        return " or ".join(map(json.dumps, values)) if len(values) <= 4 else "one of a list"
    kind = schema.get("type", "any value")
    if kind == "array":
        return _list(schema)
    if kind == "string":
        return _text(schema)
    if kind == "integer":
        return "integer" + _range(schema.get("minimum"), _most(schema))
    return {"boolean": "true or false", "object": "a map"}.get(kind, str(kind))


def _most(schema: Schema) -> int | None:
    above = schema.get("exclusiveMaximum")
    return schema.get("maximum") if above is None else above - 1


def _range(least: Any, most: Any) -> str:
    if least is None and most is None:
        return ""
    power = most is not None and most >= 2**16 and not (most & (most + 1) and most & (most - 1))
    exponent = f"2^{most.bit_length()}-1" if power and most & 1 else None
    shown = exponent or (f"2^{most.bit_length() - 1}" if power else most)
    return f" {least if least is not None else '..'} .. {shown if most is not None else '..'}"


def _list(schema: Schema) -> str:
    if "prefixItems" in schema:
        return "list of " + ", ".join(map(in_words, schema["prefixItems"]))
    least, most = schema.get("minItems", 0), schema.get("maxItems")
    size = f" of {least} to {most}" if most is not None else f" of {least} or more" if least else ""
    return f"list{size}: {in_words(schema.get('items', {}))}"


def _text(schema: Schema) -> str:
    if schema.get("contentEncoding") == "base64":
        return "bytes"
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    if "pattern" in schema and schema["pattern"] != r"^\S(.*\S)?$":
        return f"text {schema['pattern']}"
    return f"text of {least} to {most} characters" if most is not None else "text"

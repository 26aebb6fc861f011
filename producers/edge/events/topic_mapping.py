"""Where an event is in the records of a site's own topic.

    [topic]
    format = "json"                 or "avro", with  schema = "orders.avsc"  beside this file
    user = "/customer/id"           a JSON pointer (RFC 6901)
    item = "/lines/0/sku"
    type = "purchase"               what begins with no / is the value itself
    value = "/stars"                value, time, key and list may be absent
    time = "/placed_at"             without it: the time that Kafka keeps with a record

    [topic.types]                   the site's words for types
    order_placed = "purchase"

Avro needs the package fastavro, and no registry: the five bytes that Confluent's serializers put
before a value are passed over where the rest is then exactly one record of the schema.
"""

from __future__ import annotations

import io
import json
import re
import struct
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

from producers.edge.events import strict_json
from producers.edge.events.strict_json import REPEATED, Malformed
from stream_app.errors import UserError

MAX_RECORD_BYTES = 1 << 20
_REQUIRED = ("user", "item", "type")
_FIELDS = (*_REQUIRED, "value", "time", "key", "list")
_OTHERS = ("format", "schema", "types")
_POINTER = re.compile(r"(/([^~]|~[01])*)+")
_HEADER_BYTES = 5
_UNDECODABLE = (
    *(EOFError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError),
    *(RecursionError, MemoryError, struct.error),
)

Decode = Callable[[bytes], Any]


@dataclass(frozen=True)
class TopicMapping:
    """Fields as pointers (tuples) or values (text), words for types, and how a record is read."""

    fields: Mapping[str, tuple[str, ...] | str]
    types: Mapping[str, str]
    decode: Decode

    def row(self, value: bytes | None) -> dict[str, Any]:
        """Return the fields of a record, as `decoding` takes them; `Malformed` where it is none."""
        if not value:
            raise Malformed("empty", "the record has no value")
        if len(value) > MAX_RECORD_BYTES:
            raise Malformed("too_large", f"the record is above {MAX_RECORD_BYTES:,} bytes")
        record = self.decode(value)
        if record is REPEATED:
            raise Malformed("field_repeated", "the record names a field twice")
        row = {
            name: place if isinstance(place, str) else _plain(_found(record, place))
            for name, place in self.fields.items()
        }
        found = row["type"]
        row["type"] = self.types.get(found, found) if isinstance(found, str) else found
        if isinstance(row.get("value"), str):
            with suppress(ValueError):
                row["value"] = float(row["value"])
        return row


def read_mapping(path: Path | str) -> TopicMapping:
    """Return the mapping in a TOML file; UserError with what is wrong in it."""
    path = Path(path)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8")).get("topic")
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: is not TOML ({error})") from None
    if not isinstance(table, dict):
        raise UserError(f"{path}: has no table [topic]")
    return mapping(table, path)


def mapping(table: Mapping[str, Any], path: Path) -> TopicMapping:
    """Return the mapping of a table; `path`: the file it is from, beside which a schema lies."""
    for name in _REQUIRED:
        if name not in table:
            raise UserError(
                f'{path}: [topic] has no {name}; give a JSON pointer as in {name} = "/{name}", or '
                "the value itself"
            )
    if unknown := sorted(table.keys() - {*_FIELDS, *_OTHERS}):
        raise UserError(
            f"{path}: [topic] {unknown[0][:30]}: is unknown; it has {', '.join(_FIELDS + _OTHERS)}"
        )
    types = table.get("types", {})
    if not isinstance(types, dict) or not all(isinstance(each, str) for each in types.values()):
        raise UserError(f'{path}: [topic.types] holds lines such as order_placed = "purchase"')
    places = {name: _place(table[name], name, path) for name in _FIELDS if name in table}
    return TopicMapping(places, types, _decoder(table, path))


def _place(written: object, name: str, path: Path) -> tuple[str, ...] | str:
    if isinstance(written, str) and written and not written.startswith("/"):
        return written
    if isinstance(written, str) and _POINTER.fullmatch(written):
        tokens = written[1:].split("/")
        return tuple(token.replace("~1", "/").replace("~0", "~") for token in tokens)
    raise UserError(f'{path}: [topic] {name}: is no JSON pointer, such as "/customer/id"')


def _decoder(table: Mapping[str, Any], path: Path) -> Decode:
    kind, schema = table.get("format", "json"), table.get("schema")
    if kind == "json" and schema is None:
        return lambda value: strict_json.read(strict_json.text_of(value))
    if kind == "avro" and isinstance(schema, str):
        return _avro(path.parent / schema)
    raise UserError(
        f'{path}: [topic] format is "json", or "avro" with schema = "FILE.avsc" beside it'
    )


def _avro(path: Path) -> Decode:
    try:
        import fastavro
    except ImportError:
        raise UserError("a topic of Avro needs fastavro: pip install fastavro") from None
    try:
        schema = fastavro.parse_schema(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, TypeError, LookupError, fastavro.schema.SchemaParseException):
        raise UserError(f"{path}: is no schema of Avro") from None

    def decode(value: bytes) -> Any:
        headed = value[0] == 0 and len(value) > _HEADER_BYTES
        for start in (_HEADER_BYTES, 0) if headed else (0,):
            stream = io.BytesIO(value[start:])
            try:
                record = fastavro.schemaless_reader(stream, schema)
            except _UNDECODABLE:
                continue
            if stream.tell() == len(value) - start:
                return record
        raise Malformed("not_avro", "the record is not one of the schema")

    return decode


def _found(record: Any, place: tuple[str, ...]) -> Any:
    for token in place:
        if isinstance(record, dict):
            record = record.get(token)
        elif isinstance(record, list) and token.isdecimal() and int(token) < len(record):
            record = record[int(token)]
        else:
            return None
    return record


def _plain(found: Any) -> Any:
    """Return what JSON would hold; a time of Avro stays one, and bytes, which are no id."""
    if found is None or isinstance(found, str | bytes | int | float | list | dict | date):
        return found
    return float(found) if isinstance(found, Decimal) else str(found)

"""Records of a site's topic, of any shape, as the fields of an event."""

from __future__ import annotations

import io
import json
import struct
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from producers.edge.events import event
from producers.edge.events.strict_json import Malformed
from producers.edge.events.topic_mapping import MAX_RECORD_BYTES, mapping, read_mapping
from stream_app.errors import UserError

TOML = """
[topic]
user = "/customer/id"
item = "/lines/1/a~1b"
type = "/kind"
value = "/stars"
time = "/placed"
list = "from mail"

[topic.types]
order_placed = "purchase"
"""
RECORD = {
    "customer": {"id": 7},
    "lines": [{}, {"a/b": "SKU"}],
    "kind": "order_placed",
    "stars": "4.5",
    "placed": "2026-05-01T12:00:00Z",
}
SCHEMA = {
    "type": "record",
    "name": "order",
    "fields": [
        {"name": "customer", "type": "string"},
        {"name": "sku", "type": ["null", "string"]},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
AVRO = 'format="avro"\nschema="order.avsc"\nuser="/customer"\nitem="/sku"\ntype="purchase"\n'


def written(folder: Path, text: str) -> Path:
    path = folder / "edge.toml"
    path.write_text(text)
    return path


def test_pointers_constants_and_words_for_types(tmp_path: Path):
    found = read_mapping(written(tmp_path, TOML))
    assert found.row(json.dumps(RECORD).encode()) == {
        "user": 7,
        "item": "SKU",
        "type": "purchase",
        "value": 4.5,
        "time": "2026-05-01T12:00:00Z",
        "list": "from mail",
    }
    assert found.row(b'{"lines":[1],"kind":["order_placed"],"stars":"many"}') == {
        "user": None,
        "item": None,
        "type": ["order_placed"],
        "value": "many",
        "time": None,
        "list": "from mail",
    }


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "empty"),
        (b"", "empty"),
        (b"\xff", "not_utf8"),
        (b"{", "not_json"),
        (b'{"a":1,"a":2}', "field_repeated"),
        (b"[" * 9_000, "nested"),
        (b" " * (MAX_RECORD_BYTES + 1), "too_large"),
    ],
)
def test_a_record_that_is_none_has_a_reason(tmp_path: Path, value: bytes | None, reason: str):
    with pytest.raises(Malformed) as refusal:
        read_mapping(written(tmp_path, TOML)).row(value)
    assert refusal.value.reason == reason


WRONG = {
    "no table": ("[other]\na=1", r"no table \[topic\]"),
    "no TOML": ("[topic", "is not TOML"),
    "no user": ('[topic]\nitem="/a"\ntype="b"', "has no user; give a JSON pointer"),
    "another field": ('[topic]\nuser="/a"\nitem="/b"\ntype="c"\nratign="/d"', "ratign: is unknown"),
    "no pointer": ('[topic]\nuser="/a~2"\nitem="/b"\ntype="c"', "user: is no JSON pointer"),
    "a number": ('[topic]\nuser=4\nitem="/b"\ntype="c"', "user: is no JSON pointer"),
    "another format": ('[topic]\nformat="xml"\nuser="/a"\nitem="/b"\ntype="c"', "format is"),
    "Avro without a schema": ('[topic]\nformat="avro"\nuser="/a"\nitem="/b"\ntype="c"', "schema ="),
    "words of no text": ('[topic]\nuser="/a"\nitem="/b"\ntype="c"\ntypes={a=1}', "topic.types"),
}


@pytest.mark.parametrize(("text", "sentence"), WRONG.values(), ids=WRONG)
def test_a_wrong_table_is_refused_with_its_mend(tmp_path: Path, text: str, sentence: str):
    with pytest.raises(UserError, match=sentence):
        read_mapping(written(tmp_path, text))
    with pytest.raises(UserError, match="cannot be read"):
        read_mapping(tmp_path / "none.toml")


def test_avro_is_read_with_the_header_of_a_registry_and_without(tmp_path: Path):
    fastavro = pytest.importorskip("fastavro")
    (tmp_path / "order.avsc").write_text(json.dumps(SCHEMA))
    found = read_mapping(written(tmp_path, f'[topic]\n{AVRO}value="/price"\ntime="/at"'))
    at = datetime(2026, 5, 1, 12, 0, 0, 250_000, UTC)

    def encoded(**changed: Any) -> bytes:
        from decimal import Decimal

        stream = io.BytesIO()
        record = {"customer": "ann", "sku": "a", "price": Decimal("9.95"), "at": at, **changed}
        fastavro.schemaless_writer(stream, fastavro.parse_schema(SCHEMA), record)
        return stream.getvalue()

    for value in (encoded(), b"\0" + struct.pack(">I", 17) + encoded()):
        row = found.row(value)
        assert event.milliseconds(row.pop("time")) == round(at.timestamp() * 1000)
        assert row == {"user": "ann", "item": "a", "type": "purchase", "value": 9.95}
    # An empty text begins with a zero byte, as the header does.
    assert found.row(encoded(customer=""))["user"] == ""
    for wrong in (encoded()[:-1], encoded() + b"x", b"\0\0\0\0\1", b"\xff" * 40):
        with pytest.raises(Malformed) as refusal:
            found.row(wrong)
        assert refusal.value.reason == "not_avro"


def test_a_schema_that_is_none_is_refused(tmp_path: Path):
    pytest.importorskip("fastavro")
    (tmp_path / "order.avsc").write_text('{"type": "nothing"}')
    with pytest.raises(UserError, match="is no schema of Avro"):
        read_mapping(written(tmp_path, f"[topic]\n{AVRO}"))
    (tmp_path / "order.avsc").unlink()
    with pytest.raises(UserError, match="cannot be read"):
        read_mapping(written(tmp_path, f"[topic]\n{AVRO}"))


def test_without_fastavro_the_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    import sys

    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(UserError, match="pip install fastavro"):
        mapping(
            {"format": "avro", "schema": "a", "user": "/a", "item": "/b", "type": "c"}, tmp_path
        )


def test_bytes_of_avro_are_no_id(tmp_path: Path):
    fastavro = pytest.importorskip("fastavro")
    schema = {**SCHEMA, "fields": [{"name": "customer", "type": "bytes"}]}
    (tmp_path / "order.avsc").write_text(json.dumps(schema))
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), {"customer": b"7"})
    found = read_mapping(written(tmp_path, "[topic]\n" + AVRO)).row(stream.getvalue())
    with pytest.raises(ValueError, match="must be text"):
        event.user_id(found["user"])

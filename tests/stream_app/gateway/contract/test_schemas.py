"""The schemas take what the code writes and refuse what the decoders refuse, where one can."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from stream_app import wire
from stream_app.gateway.contract import schemas
from stream_app.gateway.contract.rules import RULES
from stream_app.gateway.contract.topic_messages import MESSAGES, OF_TOPICS
from stream_app.wire import Event, Reason, Topics
from tests.stream_app.wire import test_contract as golden

SCHEMAS = schemas.schemas()
CHECKED = {name: Draft202012Validator(schema) for name, schema in SCHEMAS.items()}
JSON_MESSAGES = [m for m in MESSAGES if m.kind is not None and m.content_type.endswith("json")]


def valid(name: str, value: Any) -> bool:
    return CHECKED[name].is_valid(value)


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_schema_is_one_and_takes_its_example(name: str) -> None:
    schema = SCHEMAS[name]
    Draft202012Validator.check_schema(schema)
    assert schema["$id"].endswith(name)
    assert schema["description"]
    for example in schema.get("examples", ()):
        CHECKED[name].validate(example)


def test_every_topic_and_every_type_of_a_message_is_described() -> None:
    every = {name for name, value in vars(Topics).items() if isinstance(value, property)}
    assert set(OF_TOPICS) == every
    named = [name for names in OF_TOPICS.values() for name in names]
    assert set(named) == {message.name for message in MESSAGES}
    assert all(m.example is not None for m in MESSAGES if m.kind is not None)


def test_every_rule_names_a_field_and_every_field_of_such_a_type_has_one() -> None:
    kinds = [*(m.kind for m in MESSAGES if m.kind is not None), *schemas.BODIES.values()]
    _, parts = schemas.components(kinds, "#/$defs/")
    for name, rules in RULES.items():
        fields = set(parts[name]["properties"]) - {"v"}
        assert set(rules) == fields, name
    for kind in schemas.BODIES.values():
        assert kind.__name__ in RULES


@pytest.mark.parametrize("message", JSON_MESSAGES, ids=lambda message: message.name)
def test_an_example_is_what_the_decoder_takes(message: Any) -> None:
    value = message.example
    if message.name == "event":
        found = msgspec.json.decode(value)
        assert (found["device"], len(found["items"])) == (golden_device(value), 2)
    elif message.name == "cut-log-entry":
        assert wire.decode_entry(value).v == 1
    else:
        assert wire.decode_message(message.kind, value).v == 1


def golden_device(value: bytes) -> str:
    key = msgspec.json.decode(value)["device"].encode()
    partition = int(wire.partitions_of(np.frombuffer(key, np.uint8).reshape(1, 32), 4)[0])
    return wire.decode(key, value, partition, golden.INTAKE).device.hex()


# --- the event ----------------------------------------------------------------------------------

# What depends on the deployment, on the place of the record, on other fields or on bytes.
BEYOND_A_SCHEMA = {
    "unknown mechanism": Reason.MECHANISM_NOT_ALLOWED,
    "epsilon of 100": Reason.MECHANISM_NOT_ALLOWED,
    "report outside": Reason.REPORT_OUTSIDE_ALPHABET,
    "more items than reports": Reason.LENGTH_MISMATCH,
    "item with long text": Reason.BAD_ITEM,  # 100 characters of 2 bytes each
    "another device": Reason.KEY_MISMATCH,
    "test event": Reason.TEST_EVENT,
    "a field twice": Reason.MALFORMED,
    "seq of 7.0": Reason.MALFORMED,  # an integer to JSON Schema, none to the decoder
    "extension under version 1": Reason.MALFORMED,
}
MORE_BAD = [
    ("a field twice", golden.GOLDEN_JSON[:-1] + b',"seq":7}', Reason.MALFORMED),
    ("seq of 7.0", golden.GOLDEN_JSON.replace(b'"seq":7', b'"seq":7.0'), Reason.MALFORMED),
    ("extension under version 1", golden.json_event(x={}), Reason.MALFORMED),
    ("extension that is a list", golden.json_event(x=[]), Reason.MALFORMED),
    ("seq of 2^62 + 1", golden.json_event(seq=2**62 + 1), Reason.MALFORMED),
    ("epoch of 2^32", golden.json_event(epoch=2**32), Reason.MALFORMED),
    ("empty text", golden.json_event(items=["", 2]), Reason.MALFORMED),
    ("text of 129", golden.json_event(items=["x" * 129, 2]), Reason.MALFORMED),
    ("mechanism of 65", golden.json_event(mechanism="x" * 65), Reason.MALFORMED),
    ("mask of 0", golden.json_event(masks=[0, 1]), Reason.MALFORMED),
    ("no masks", golden.json_event(masks=[]), Reason.BAD_MASK),
    ("test of 1", golden.json_event(test=1), Reason.MALFORMED),
    ("null test", golden.json_event(test=None), Reason.MALFORMED),
]


def bad_events() -> list[tuple[str, Any, Reason]]:
    found = []
    for name, value, reason in (*golden.NOT_EVENTS, *MORE_BAD):
        if value is None or value[:1] not in b"{[" or reason is Reason.TOO_LARGE:
            continue
        try:
            found.append((name, msgspec.json.decode(value), reason))
        except (msgspec.MsgspecError, RecursionError):
            continue  # not JSON
    return found


def test_the_bad_events_are_bad() -> None:
    for name, value, reason in MORE_BAD:
        if name == "a field twice":
            continue  # a reader takes the last one; the gateway refuses it
        with pytest.raises(wire.WireError) as raised:
            golden.decode(value)
        assert raised.value.reason is reason, name


def test_the_schema_refuses_what_the_decoder_refuses_where_it_can() -> None:
    bad = bad_events()
    assert len(bad) > 35
    taken = {name: reason for name, value, reason in bad if valid("event", value)}
    assert taken == BEYOND_A_SCHEMA


def test_the_golden_bytes_are_valid() -> None:
    assert valid("event", msgspec.json.decode(golden.GOLDEN_JSON))
    packed = msgspec.to_builtins(msgspec.msgpack.decode(golden.GOLDEN_PACKED))
    assert packed["device"] == base64.b64encode(golden.DEVICE).decode()
    assert valid("packed-event", packed)
    for more in (golden.GOLDEN_NEW, b""):
        assert valid("recommendation", msgspec.json.decode(golden.GOLDEN_REPLY % more))
    assert valid("query", msgspec.json.decode(golden.GOLDEN_QUERY % b""))


ITEMS = st.one_of(
    st.integers(0, 2**63 - 1),
    st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=32
    ),
)


@st.composite
def events(draw: st.DrawFn) -> tuple[Event, list[wire.Item]]:
    names = draw(st.lists(ITEMS, min_size=1, max_size=5))
    reports = draw(st.lists(st.integers(0, 255), min_size=len(names), max_size=len(names)))
    masks = draw(st.none() | st.lists(st.integers(1, 2**16 - 1), min_size=len(names)))
    event = Event(
        draw(st.binary(min_size=16, max_size=16)),
        draw(st.integers(1, 2**62)),
        draw(st.text("abc:0123456789/", max_size=64)),
        draw(st.integers(0, 2**32 - 1)),
        np.array([wire.key(name) for name in names], np.uint64),
        np.array(reports, np.uint8),
        draw(st.booleans()),
        None if masks is None else np.array(masks[: len(names)], np.uint16),
    )
    return event, names


@settings(max_examples=200, deadline=None)
@given(events())
def test_every_event_that_can_be_written_is_valid(made: tuple[Event, list[wire.Item]]) -> None:
    event, names = made
    CHECKED["event"].validate(msgspec.json.decode(wire.encode_json(event, names)))
    packed = msgspec.to_builtins(msgspec.msgpack.decode(wire.encode(event)))
    CHECKED["packed-event"].validate(packed)


# --- other messages -----------------------------------------------------------------------------

OTHERS: list[tuple[str, Any, dict[str, Any], bool]] = [
    ("query", wire.Query, {}, True),
    ("query", wire.Query, {"k": 0}, False),
    ("query", wire.Query, {"k": 101}, False),
    ("query", wire.Query, {"user": "F" * 32}, False),
    ("query", wire.Query, {"id": "abc"}, False),
    ("query", wire.Query, {"similar_to": -1}, False),
    ("query", wire.Query, {"v": 2}, False),
    ("query", wire.Query, {"rating": 5}, False),
    ("catalogue-entry", wire.CatalogueEntry, {}, True),
    ("catalogue-entry", wire.CatalogueEntry, {"genres": ["a", "a"]}, False),
    ("catalogue-entry", wire.CatalogueEntry, {"genres": [" a"]}, False),
    ("catalogue-entry", wire.CatalogueEntry, {"genres": ["a"] * 17}, False),
    ("catalogue-entry", wire.CatalogueEntry, {"year": 0}, False),
    ("catalogue-entry", wire.CatalogueEntry, {"title": "x" * 501}, False),
    ("rejection", wire.Rejection, {}, True),
    ("rejection", wire.Rejection, {"reason": "none"}, False),
    ("recommendation", wire.Recommendation, {}, True),
    ("recommendation", wire.Recommendation, {"because": [], "reason": None}, True),
    ("recommendation", wire.Recommendation, {"status": "fine"}, False),
    ("recommendation", wire.Recommendation, {"items": ["a", 1.5]}, False),
]


@pytest.mark.parametrize(("name", "kind", "changes", "taken"), OTHERS, ids=str)
def test_schema_and_decoder_of_a_message_agree(
    name: str, kind: Any, changes: dict[str, Any], taken: bool
) -> None:
    example = next(m.decoded for m in MESSAGES if m.name == name)
    value = example | changes
    assert valid(name, value) is taken
    try:
        wire.decode_message(kind, msgspec.json.encode(value))
        decoded = True
    except wire.WireError:
        decoded = False
    assert decoded is taken


CUTS: list[tuple[dict[str, Any], bool]] = [
    ({"kind": "cut", "number": 1, "ends": [0], "epoch": 1}, True),
    ({"number": 1, "ends": [0], "epoch": 1}, True),
    ({"number": 1, "ends": [0], "epoch": 1, "days": [1, 2]}, True),
    ({"number": 1, "ends": [0], "epoch": 1, "days": [1]}, False),
    ({"number": 0, "ends": [0], "epoch": 1}, False),
    ({"number": 1, "ends": [], "epoch": 1}, False),
    ({"kind": "forget", "device": "0" * 32}, True),
    ({"kind": "forget", "device": "0" * 31}, False),
    ({"device": "0" * 32}, False),
    ({"kind": "contract", "version": 2}, True),
    ({"kind": "truncate", "to_cut": 4, "newest": 9}, True),
    ({"kind": "other"}, False),
]


@pytest.mark.parametrize(("value", "taken"), CUTS, ids=str)
def test_schema_and_decoder_of_the_cut_log_agree(value: dict[str, Any], taken: bool) -> None:
    assert valid("cut-log-entry", value) is taken
    try:
        wire.decode_entry(msgspec.json.encode(value))
        decoded = True
    except wire.WireError:
        decoded = False
    assert decoded is taken

"""The extension block of an event: refused by contract 1, bounded and ignored by contract 2, and
the same for every release of the decoder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_app import wire
from stream_app.wire import REASONS, Reason, RecordRun, WireError
from stream_app.wire.decoding import version_reason
from stream_app.wire.events import JsonAny, Packed
from stream_app.wire.limits import MAX_EXTENSION_BYTES
from tests.stream_app.wire.test_contract import (
    EVENT,
    GOLDEN_JSON,
    GOLDEN_PACKED,
    INTAKE,
    PARTITION,
    json_event,
    packed_event,
    same,
)

FIRST, SECOND = INTAKE, replace(INTAKE, contract=2)
DEEP = b"[" * 100_000 + b"]" * 100_000


def outcome(value: bytes, intake: wire.Intake) -> Reason:
    """Return the reason of both decoders, which must agree."""
    try:
        decoded = wire.decode(EVENT.key, value, PARTITION, intake)
        reason = Reason.ACCEPTED
        assert same(decoded, EVENT)
    except WireError as error:
        reason = error.reason
    for values in ([value], [value, GOLDEN_JSON], [GOLDEN_PACKED, value], [value, value]):
        n = len(values)
        batch = wire.decode_many(RecordRun(PARTITION, range(n), [EVENT.key] * n, values), intake)
        assert REASONS[batch.reasons[values.index(value)]] is reason
    return reason


def with_block(block: bytes) -> bytes:
    """Return the golden event with raw JSON as its extension block."""
    return GOLDEN_JSON[:-1] + b',"x":' + block + b"}"


@pytest.mark.parametrize("event", [json_event, packed_event], ids=["json", "packed"])
def test_a_block_is_refused_by_contract_1_and_ignored_by_contract_2(event: Any) -> None:
    for block in ({}, {"colour": "red"}, {"a": [1, {"b": None}], "v": 9}):
        assert outcome(event(x=block), FIRST) is Reason.MALFORMED
        assert outcome(event(x=block), SECOND) is Reason.ACCEPTED


@pytest.mark.parametrize("event", [json_event, packed_event], ids=["json", "packed"])
@pytest.mark.parametrize("contract", [FIRST, SECOND], ids=["first", "second"])
def test_only_the_block_may_hold_what_is_unknown(event: Any, contract: wire.Intake) -> None:
    assert outcome(event(y={}), contract) is Reason.MALFORMED
    for block in (None, 1, 123, "a", "{}", [], [{}], True):
        assert outcome(event(x=block), contract) is Reason.MALFORMED


@pytest.mark.parametrize("event", [json_event, packed_event], ids=["json", "packed"])
def test_a_block_has_a_bound(event: Any) -> None:
    encoder = msgspec.json if event is json_event else msgspec.msgpack
    room = MAX_EXTENSION_BYTES - len(encoder.encode({"a": "b" * 400})) + 400
    assert outcome(event(x={"a": "b" * room}), SECOND) is Reason.ACCEPTED
    assert outcome(event(x={"a": "b" * (room + 1)}), SECOND) is Reason.MALFORMED


def test_a_block_is_no_place_for_bombs() -> None:
    for block in (DEEP[:1000], b'{"a":' + DEEP[:60_000] + DEEP[-60_000:] + b"}", b"{", b'{"a":}'):
        assert outcome(with_block(block), SECOND) is Reason.MALFORMED
    nested = b'{"a":' + b"[" * 250 + b"]" * 250 + b"}"
    assert outcome(with_block(nested), SECOND) is Reason.ACCEPTED


# --- releases -------------------------------------------------------------------------------------


def without_the_block(schema: type) -> type:
    """Return the schema of a release that did not know the block."""
    fields = [
        (f.name, f.type) if f.required else (f.name, f.type, f.default)
        for f in msgspec.structs.fields(schema)
        if f.name != "x"
    ]
    return msgspec.defstruct(schema.__name__, fields, forbid_unknown_fields=True)


OLD_JSON = msgspec.json.Decoder(without_the_block(JsonAny))
OLD_PACKED = msgspec.msgpack.Decoder(without_the_block(Packed))


def old_schema_fits(value: bytes) -> bool | Reason:
    """Return whether the earlier release read the fields of a record, else its reason."""
    try:
        (OLD_JSON if value[0] == 0x7B else OLD_PACKED).decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return version_reason(value)
    return True


FIELDS = st.dictionaries(
    st.sampled_from(["x", "y", "v", "seq", "test", "masks", "epoch", "items", "reports"]),
    st.sampled_from([{}, {"a": 1}, 1, 2, None, True, [], [1, 2], [4, 0], "a", ..., -1]),
    max_size=3,
)


@given(FIELDS, st.booleans())
def test_contract_1_reads_every_record_as_the_release_before_did(
    changes: dict[str, Any], packed: bool
) -> None:
    value = packed_event(**changes) if packed else json_event(**changes)
    before = old_schema_fits(value)
    try:
        wire.decode(EVENT.key, value, PARTITION, FIRST)
        now = Reason.ACCEPTED
    except WireError as error:
        now = error.reason
    if before is not True:
        assert now is before
    elif "x" in changes:
        assert changes["x"] is ...

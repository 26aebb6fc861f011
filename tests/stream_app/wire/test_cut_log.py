"""Entries of the cut log: valid ones round-trip, invalid ones are rejected with a reason."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_app.wire import (
    MAX_TRUNCATED,
    Cut,
    DigestReport,
    Entry,
    Forget,
    Reason,
    Truncate,
    WireError,
    decode_entry,
    encode_message,
)
from stream_app.wire.limits import MAX_EVENT_BYTES, MAX_SEQ

DEVICE = "0123456789abcdef" * 2
ENTRIES: dict[str, Entry] = {
    "cut": Cut(7, (1, 2, 3), 20_000, "d" * 32),
    "marked cut": Cut(8, (1, 2, 4), 20_000, "d" * 32, checkpoint=True),
    "cut with tails": Cut(9, (1, 0), 20_000, tails=("0123456789abcdef", "")),
    "truncate": Truncate(7, 1_000_009),
    "forget": Forget(DEVICE),
    "forget with a rebuild": Forget(DEVICE, rebuild=True),
    "witness": DigestReport(7, "a" * 32, "b" * 32, "d" * 32, "c" * 32),
}


@pytest.mark.parametrize(("name", "entry"), ENTRIES.items(), ids=ENTRIES)
def test_an_entry_is_read_as_it_was_written(name: str, entry: Entry) -> None:
    value = encode_message(entry)
    assert decode_entry(value) == entry
    assert json.loads(value)["kind"] in name.split()


GOLDEN = {
    "marked cut": b'{"kind":"cut","number":8,"ends":[1,2,4],"epoch":20000,'
    b'"design":"dddddddddddddddddddddddddddddddd","checkpoint":true,"tails":[],"v":1}',
    "cut with tails": b'{"kind":"cut","number":9,"ends":[1,0],"epoch":20000,"design":"",'
    b'"checkpoint":false,"tails":["0123456789abcdef",""],"v":1}',
    "truncate": b'{"kind":"truncate","to_cut":7,"newest":1000009,"v":1}',
    "witness": b'{"kind":"witness","cut":7,"model":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",'
    b'"ledger":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","design":"dddddddddddddddddddddddddddddddd",'
    b'"base":"cccccccccccccccccccccccccccccccc","v":1}',
}


@pytest.mark.parametrize(("name", "golden"), GOLDEN.items(), ids=GOLDEN)
def test_an_entry_has_these_bytes(name: str, golden: bytes) -> None:
    assert encode_message(ENTRIES[name]) == golden


def test_an_entry_without_a_kind_is_a_cut() -> None:
    assert decode_entry(b'{"number":1,"ends":[3],"epoch":0,"v":1}') == Cut(1, (3,), 0)


BAD = {
    "nothing": (b"", Reason.EMPTY),
    "too long": (b"{" * (MAX_EVENT_BYTES + 1), Reason.TOO_LARGE),
    "no JSON": (b"\xff\xfe", Reason.MALFORMED),
    "a list": (b"[]", Reason.MALFORMED),
    "deep": (b"[" * 50_000, Reason.MALFORMED),
    "an unknown kind": (b'{"kind":"party","v":1}', Reason.MALFORMED),
    "a later version": (
        b'{"kind":"cut","number":1,"ends":[3],"epoch":0,"v":2}',
        Reason.UNKNOWN_VERSION,
    ),
    "a field too many": (
        b'{"kind":"cut","number":1,"ends":[3],"epoch":0,"why":1,"v":1}',
        Reason.MALFORMED,
    ),
    "number 0": (b'{"kind":"cut","number":0,"ends":[3],"epoch":0,"v":1}', Reason.MALFORMED),
    "no ends": (b'{"kind":"cut","number":1,"ends":[],"epoch":0,"v":1}', Reason.MALFORMED),
    "a negative end": (b'{"kind":"cut","number":1,"ends":[-1],"epoch":0,"v":1}', Reason.MALFORMED),
    "a huge end": (
        b'{"kind":"cut","number":1,"ends":[%d],"epoch":0,"v":1}' % (MAX_SEQ + 1),
        Reason.MALFORMED,
    ),
    "a device of 31 digits": (
        b'{"kind":"forget","device":"%s","v":1}' % DEVICE[1:].encode(),
        Reason.MALFORMED,
    ),
    "a device in capitals": (
        b'{"kind":"forget","device":"%s","v":1}' % DEVICE.upper().encode(),
        Reason.MALFORMED,
    ),
    "a fingerprint of 15 digits": (
        b'{"kind":"cut","number":1,"ends":[3],"epoch":0,"tails":["%s"],"v":1}' % (b"a" * 15),
        Reason.MALFORMED,
    ),
    "a truncation that leaves no numbers": (
        b'{"kind":"truncate","to_cut":1,"newest":%d,"v":1}' % (MAX_TRUNCATED + 1),
        Reason.MALFORMED,
    ),
    "a truncation to a negative cut": (
        b'{"kind":"truncate","to_cut":-1,"newest":9,"v":1}',
        Reason.MALFORMED,
    ),
    "an invalid digest": (
        b'{"kind":"witness","cut":1,"model":"x","ledger":"y","design":"","base":"z","v":1}',
        Reason.MALFORMED,
    ),
}


@pytest.mark.parametrize(("value", "reason"), BAD.values(), ids=BAD)
def test_an_invalid_entry_is_rejected_with_its_reason(value: bytes, reason: Reason) -> None:
    with pytest.raises(WireError) as refused:
        decode_entry(value)
    assert refused.value.reason is reason


def test_no_value_is_refused() -> None:
    with pytest.raises(WireError):
        decode_entry(None)


@given(st.binary(max_size=200))
def test_any_bytes_are_an_entry_or_are_rejected(value: bytes) -> None:
    try:
        entry = decode_entry(value)
    except WireError:
        return
    assert decode_entry(encode_message(entry)) == entry

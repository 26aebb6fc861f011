"""Profile events: valid ones round-trip, invalid ones are rejected with a reason."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.wire import ProfileEvent, Reason, Topics, WireError, decode_profile, encode_profile

SIZES = {"blip:16:2:8": 2}
EVENT = ProfileEvent(bytes(range(16)), 3, "blip:16:2:8", 20_000, b"\x12\x34")
VALUE = encode_profile(EVENT)


def changed(**fields: object) -> bytes:
    value = msgspec.msgpack.decode(VALUE)
    value.update(fields)
    return msgspec.msgpack.encode(
        {name: field for name, field in value.items() if field is not ...}
    )


def test_a_profile_round_trips() -> None:
    found = decode_profile(EVENT.key, VALUE, SIZES)
    assert vars(found) == vars(EVENT)
    assert Topics().profiles == "murmurec.profiles.v1"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, Reason.EMPTY),
        (b"", Reason.EMPTY),
        (b"\x00" * 70_000, Reason.TOO_LARGE),
        (VALUE[:-1], Reason.MALFORMED),
        (VALUE + b"\x00", Reason.MALFORMED),
        (b"{}", Reason.MALFORMED),
        (changed(v=2), Reason.UNKNOWN_VERSION),
        (changed(v=2, more=1), Reason.UNKNOWN_VERSION),
        (changed(more=1), Reason.MALFORMED),
        (changed(device=bytes(16)), Reason.KEY_MISMATCH),
        (changed(device=bytes(15)), Reason.MALFORMED),
        (changed(seq=0), Reason.MALFORMED),
        (changed(mechanism="blip:16:2:100"), Reason.MECHANISM_NOT_ALLOWED),
        (changed(profile=b"\x12"), Reason.LENGTH_MISMATCH),
        (changed(profile=b"\x12\x34\x56"), Reason.LENGTH_MISMATCH),
        (changed(profile=b""), Reason.MALFORMED),
        (changed(profile="ab"), Reason.MALFORMED),
        (changed(test=True), Reason.TEST_EVENT),
    ],
    ids=lambda value: str(value)[:30],
)
def test_an_invalid_profile_is_rejected_with_its_reason(
    value: bytes | None, reason: Reason
) -> None:
    with pytest.raises(WireError) as caught:
        decode_profile(EVENT.key, value, SIZES)
    assert caught.value.reason is reason


def test_test_profiles_are_accepted_if_the_caller_allows_them() -> None:
    assert decode_profile(EVENT.key, changed(test=True), SIZES, accept_tests=True).test


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_raise_nothing_but_wire_errors(value: bytes) -> None:
    with pytest.raises(WireError):
        decode_profile(EVENT.key, value, SIZES)

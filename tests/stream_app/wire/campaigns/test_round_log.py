"""Entries of the log of rounds: every kind survives the wire, and other bytes have a reason."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_app.wire import Reason, WireError
from stream_app.wire.campaigns.plan import encode_rational
from stream_app.wire.campaigns.round_log import (
    Abort,
    AbortReason,
    Close,
    NoisyShare,
    Open,
    Opened,
    Planned,
    decode_round,
    encode_round,
)
from stream_app.wire.limits import MAX_CONTRIBUTIONS, MAX_INTEGERS, MAX_ROUND_BYTES
from tests.stream_app.wire.campaigns.plans import campaign

PLAN = campaign().digest
ENTRIES = (
    Planned(campaign()),
    Open(PLAN, 0, (0, 5)),
    Close(PLAN, 0, (3, 9), (bytes(16),)),
    Opened(PLAN, 0, 1, 9, bytes(32), b"\xff\x01"),
    Opened(PLAN, 0, 0, 0, bytes(32), b""),
    NoisyShare(PLAN, 0, 1, bytes(32), bytes(24)),
    Abort(PLAN, 63, AbortReason.TIMED_OUT),
)


def reason(value):
    with pytest.raises(WireError) as error:
        decode_round(value)
    return error.value.reason


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: type(entry).__name__)
def test_an_entry_survives_the_wire(entry):
    assert decode_round(encode_round(entry)) == entry


def changed(entry, **changes):
    fields = msgspec.msgpack.decode(encode_round(entry))
    return msgspec.msgpack.encode(fields | changes)


BAD = {
    "nothing": (b"", Reason.EMPTY),
    "null": (None, Reason.EMPTY),
    "too large": (bytes(MAX_ROUND_BYTES + 1), Reason.TOO_LARGE),
    "short": (encode_round(ENTRIES[1])[:-1], Reason.MALFORMED),
    "an unknown kind": (changed(ENTRIES[1], kind="shut"), Reason.MALFORMED),
    "another field": (changed(ENTRIES[1], ends=(1,)), Reason.MALFORMED),
    "a later version": (changed(ENTRIES[1], v=2), Reason.UNKNOWN_VERSION),
    "no partitions": (changed(ENTRIES[1], begins=()), Reason.MALFORMED),
    "a negative offset": (changed(ENTRIES[1], begins=(-1,)), Reason.MALFORMED),
    "a third party": (changed(ENTRIES[3], party=2), Reason.MALFORMED),
    "fewer bits than contributions": (changed(ENTRIES[3], opened=b"\xff"), Reason.MALFORMED),
    "more bits than contributions": (changed(ENTRIES[3], opened=b"\xff\x03"), Reason.MALFORMED),
    "an unknown reason": (changed(ENTRIES[6], reason="bored"), Reason.MALFORMED),
    "a short forgotten device": (changed(ENTRIES[2], forgotten=(bytes(15),)), Reason.MALFORMED),
}


@pytest.mark.parametrize(("value", "expected"), BAD.values(), ids=BAD)
def test_other_bytes_are_rejected_with_a_reason(value, expected):
    assert reason(value) == expected


def test_a_plan_of_a_later_version_is_named_as_such():
    plan = msgspec.msgpack.decode(encode_round(ENTRIES[0]))
    later = plan | {"campaign": plan["campaign"] | {"v": 2}}
    assert reason(msgspec.msgpack.encode(later)) == Reason.UNKNOWN_VERSION


@given(st.binary(max_size=300))
def test_random_bytes_raise_nothing_but_a_reason(value):
    assert reason(value) in (Reason.EMPTY, Reason.MALFORMED, Reason.UNKNOWN_VERSION)


def test_the_largest_answers_of_a_party_fit():
    encode_round(NoisyShare(PLAN, 0, 1, bytes(32), bytes(4 * MAX_INTEGERS)))
    most = bytes(MAX_CONTRIBUTIONS // 8)
    encode_round(Opened(PLAN, 0, 1, MAX_CONTRIBUTIONS, bytes(32), most))


def test_a_plan_that_no_reader_takes_is_not_written():
    scope = tuple(f"{number:0128d}" for number in range(10_000))
    with pytest.raises(ValueError, match="smaller scope"):
        encode_round(Planned(campaign(scope=scope)))


def test_a_plan_that_the_cut_log_does_not_take_is_neither_written_nor_read():
    """The readers follow the log of rounds alone: what another program writes there counts."""
    fits = campaign(scope=tuple(f"{number:096d}" for number in range(2000)))
    encode_round(Planned(fits))
    larger = msgspec.structs.replace(fits, scope=(*fits.scope, *range(1000, 2000)))
    with pytest.raises(ValueError, match=r"as JSON: the cut log takes 200000; name a smaller"):
        encode_round(Planned(larger))
    value = msgspec.msgpack.encode(Planned(larger), enc_hook=encode_rational)
    assert len(value) < MAX_ROUND_BYTES
    assert reason(value) is Reason.TOO_LARGE

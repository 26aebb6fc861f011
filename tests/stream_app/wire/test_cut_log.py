"""Entries of the cut log: valid ones round-trip, invalid ones are rejected with a reason."""

from __future__ import annotations

import base64
import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.wire import (
    MAX_TRUNCATED,
    Aborted,
    CampaignPlan,
    Cut,
    DigestReport,
    Entry,
    Forget,
    Reason,
    Released,
    Truncate,
    WireError,
    decode_entry,
    encode_message,
)
from stream_app.wire.campaigns.round_log import AbortReason
from stream_app.wire.limits import MAX_ENTRY_BYTES, MAX_EVENT_BYTES, MAX_INTEGERS, MAX_SEQ
from tests.stream_app.wire.campaigns.plans import KEYS, campaign, stage

DEVICE = "0123456789abcdef" * 2
PLAN = campaign(parties=1, keys=KEYS[:1], stages=(stage(),))
RELEASED = Released(plan=bytes(32), stage=1, contributions=9, integers=b"\1\0\0\0" + b"\xff" * 4)
ENTRIES: dict[str, Entry] = {
    "cut": Cut(7, (1, 2, 3), 20_000, "d" * 32),
    "marked cut": Cut(8, (1, 2, 4), 20_000, "d" * 32, checkpoint=True),
    "cut with tails": Cut(9, (1, 0), 20_000, tails=("0123456789abcdef", "")),
    "truncate": Truncate(7, 1_000_009),
    "forget": Forget(DEVICE),
    "forget with a rebuild": Forget(DEVICE, rebuild=True),
    "campaign": CampaignPlan(plan=PLAN),
    "released": RELEASED,
    "aborted": Aborted(plan=bytes(32), stage=0, reason=AbortReason.TIMED_OUT),
    "witness": DigestReport(7, "a" * 32, "b" * 32, "d" * 32, "c" * 32),
}


@pytest.mark.parametrize(("name", "entry"), ENTRIES.items(), ids=ENTRIES)
def test_an_entry_is_read_as_it_was_written(name: str, entry: Entry) -> None:
    value = encode_message(entry)
    assert decode_entry(value) == entry
    assert json.loads(value)["kind"] in name.split()


_ZEROS = b"A" * 43 + b"="
GOLDEN = {
    "campaign": b'{"kind":"campaign","plan":{"number":1,"epsilon":"2","delta":"1/1000000",'
    b'"parties":1,"scope":[1,"tea"],"stages":[{"kind":"together","size":6,"bound":100,"variance":400,'
    b'"share":"1/3","least":2,"deadline_cuts":50}],"keys":["%s"],"v":1},"v":1}' % (b"1" * 64),
    "released": b'{"kind":"released","plan":"%s","stage":1,"contributions":9,'
    b'"integers":"AQAAAP////8=","v":1}' % _ZEROS,
    "aborted": b'{"kind":"aborted","plan":"%s","stage":0,"reason":"timed_out","v":1}' % _ZEROS,
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


def changed(name: str, **changes: object) -> bytes:
    """Return an entry with other fields."""
    return json.dumps(json.loads(encode_message(ENTRIES[name])) | changes).encode()


def planned(**changes: object) -> bytes:
    """Return a plan with other fields."""
    plan = json.loads(encode_message(ENTRIES["campaign"]))["plan"] | changes
    return changed("campaign", plan=plan)


STAGE = json.loads(encode_message(ENTRIES["campaign"]))["plan"]["stages"][0]
BAD = {
    "nothing": (b"", Reason.EMPTY),
    "too long": (b"{" * (MAX_EVENT_BYTES + 1), Reason.TOO_LARGE),
    "a long cut": (changed("cut", design=" " * MAX_EVENT_BYTES), Reason.TOO_LARGE),
    "a cut after many spaces": (
        b" " * MAX_EVENT_BYTES + encode_message(ENTRIES["cut"]),
        Reason.TOO_LARGE,
    ),
    "a forget after many spaces": (
        b" " * MAX_EVENT_BYTES + encode_message(ENTRIES["forget"]),
        Reason.TOO_LARGE,
    ),
    "a sum after too many spaces": (
        b" " * MAX_ENTRY_BYTES + encode_message(RELEASED),
        Reason.TOO_LARGE,
    ),
    "a sum without integers": (changed("released", integers=""), Reason.MALFORMED),
    "a sum of half an integer": (changed("released", integers="AAAAAAA="), Reason.MALFORMED),
    "a sum that is no base64": (changed("released", integers="A-_="), Reason.MALFORMED),
    "a sum of too many integers": (
        changed("released", integers=base64.b64encode(bytes(4 * MAX_INTEGERS + 4)).decode()),
        Reason.TOO_LARGE,
    ),
    "a sum of a short plan": (changed("released", plan="AAAA"), Reason.MALFORMED),
    "a sum of stage -1": (changed("released", stage=-1), Reason.MALFORMED),
    "a sum of -1 contributions": (changed("released", contributions=-1), Reason.MALFORMED),
    "a sum of a later version": (changed("released", v=2), Reason.UNKNOWN_VERSION),
    "a sum with a short seal": (changed("released", seal="ab"), Reason.MALFORMED),
    "an end for no reason": (changed("aborted", reason="why"), Reason.MALFORMED),
    "a plan of a later version": (planned(v=2), Reason.UNKNOWN_VERSION),
    "a plan of epsilon 0": (planned(epsilon="0"), Reason.MALFORMED),
    "a plan of a decimal epsilon": (planned(epsilon=1.5), Reason.MALFORMED),
    "a plan of epsilon 2/2": (planned(epsilon="2/2"), Reason.MALFORMED),
    "a plan of three parties": (planned(parties=3), Reason.MALFORMED),
    "a plan of two keys for one party": (planned(keys=list(KEYS)), Reason.MALFORMED),
    "a plan without stages": (planned(stages=[]), Reason.MALFORMED),
    "a plan beyond its budget": (planned(stages=[STAGE] * 4), Reason.MALFORMED),
    "a plan of an item twice": (planned(scope=[1, 1]), Reason.MALFORMED),
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


def test_the_largest_noisy_sum_fits() -> None:
    largest = msgspec.structs.replace(RELEASED, integers=b"\xfe" * (4 * MAX_INTEGERS))
    value = encode_message(largest)
    assert MAX_EVENT_BYTES < len(value) < MAX_ENTRY_BYTES
    assert decode_entry(value) == largest


def test_a_noisy_sum_is_read_as_signed_integers() -> None:
    assert RELEASED.noisy.tolist() == [1, -1]


def test_a_plan_has_the_digest_that_it_had_before_it_was_written() -> None:
    found = decode_entry(encode_message(ENTRIES["campaign"]))
    assert isinstance(found, CampaignPlan)
    assert found.plan.digest == PLAN.digest


_VALUES = [encode_message(entry) for entry in ENTRIES.values()]


@settings(max_examples=500, deadline=None)
@given(st.sampled_from(_VALUES), st.data())
def test_an_entry_with_other_bytes_is_an_entry_or_is_rejected(
    value: bytes, draw: st.DataObject
) -> None:
    damaged = bytearray(value)
    for _ in range(draw.draw(st.integers(1, 3))):
        at = draw.draw(st.integers(0, len(damaged) - 1))
        damaged[at : at + draw.draw(st.integers(0, 2))] = draw.draw(st.binary(max_size=2))
        damaged = damaged or bytearray(b" ")
    try:
        entry = decode_entry(bytes(damaged))
    except WireError:
        return
    assert decode_entry(encode_message(entry)) == entry


@given(st.binary(max_size=200))
def test_any_bytes_are_an_entry_or_are_rejected(value: bytes) -> None:
    try:
        entry = decode_entry(value)
    except WireError:
        return
    assert decode_entry(encode_message(entry)) == entry

"""The plan of a campaign: one form on the wire, one digest, and no plan beyond its budget."""

from __future__ import annotations

from fractions import Fraction

import msgspec
import pytest

from stream_app.wire.campaigns.plan import decode_plan, encode_plan
from stream_app.wire.limits import MAX_BATCH_BYTES, MAX_INTEGERS
from tests.stream_app.wire.campaigns.plans import KEYS, campaign, stage


def test_a_plan_survives_the_wire():
    plans = campaign(parties=1, keys=KEYS[:1]), campaign(keys=())
    for plan in (campaign(), *plans):
        assert decode_plan(encode_plan(plan)) == plan


PINNED = "ef23221795ceafcf04bae292090df09a5db2ba003cd6b7cf1795a50025a7f223"


def test_the_digest_is_the_same_on_every_machine():
    assert campaign().digest.hex() == PINNED


CHANGES = {
    "number": 2,
    "epsilon": Fraction(1),
    "delta": Fraction(1, 10**7),
    "keys": KEYS[::-1],
    "scope": ("tea", 1),
    "stages": (stage(), stage(kind="stars", variance=401)),
}


@pytest.mark.parametrize("field", CHANGES)
def test_the_digest_covers_every_field(field):
    assert campaign(**{field: CHANGES[field]}).digest != campaign().digest


@pytest.mark.parametrize(
    "changes",
    [
        {"epsilon": Fraction(0)},
        {"epsilon": Fraction(-1)},
        {"delta": Fraction(1)},
        {"keys": KEYS[:1]},
        {"keys": (KEYS[0], KEYS[0])},
        {"scope": (1, 1)},
        {"scope": (-1,)},
        {"stages": (stage(share=Fraction(2, 3)), stage(share=Fraction(1, 2)))},
    ],
)
def test_a_plan_that_contradicts_itself_is_refused(changes):
    with pytest.raises(ValueError, match=r".+"):
        campaign(**changes)


@pytest.mark.parametrize("share", [Fraction(0), Fraction(-1, 2), Fraction(3, 2)])
def test_a_share_is_a_part_of_the_budget(share):
    with pytest.raises(ValueError, match="share"):
        stage(share=share)


PLANTED = {
    "a rational not in lowest terms": (b'"1/3"', b'"2/6"'),
    "a rational over zero": (b'"1/3"', b'"1/0"'),
    "a negative rational": (b'"1/3"', b'"-1/3"'),
    "a share beyond the budget": (b'"1/3"', b'"4/3"'),
    "a long rational": (b'"1/3"', b'"1/' + b"3" * 30 + b'"'),
    "digits of another script": (b'"1/3"', '"1/٣"'.encode()),
    "a float": (b'"1/3"', b"0.3"),
    "a bool": (b'"bound":100', b'"bound":true'),
    "no bound": (b'"bound":100', b'"bound":0'),
    "noise below the grid": (b'"variance":400', b'"variance":3'),
    "no coordinates": (b'"size":6', b'"size":0'),
    "more coordinates than a record holds": (b'"size":6', b'"size":48001'),
    "one device alone": (b'"least":2', b'"least":1'),
    "three parties": (b'"parties":2', b'"parties":3'),
    "a short key": (b"11" * 32, b"11" * 31),
    "another field": (b'"v":1', b'"v":1,"w":1'),
    "a missing field": (b'"number":1,', b""),
    "an item twice": (b"[1,", b'["tea",'),
    "an item that is no item": (b"[1,", b"[null,"),
}


@pytest.mark.parametrize(("right", "wrong"), PLANTED.values(), ids=PLANTED)
def test_a_malformed_plan_is_refused(right, wrong):
    value = encode_plan(campaign())
    assert right in value
    with pytest.raises(msgspec.MsgspecError):
        decode_plan(value.replace(right, wrong))


def test_a_largest_contribution_fits_in_a_batch():
    assert 4 * MAX_INTEGERS + 1024 <= MAX_BATCH_BYTES * 3 // 4


def test_a_stage_that_holds_fewer_contributions_than_it_needs_is_refused():
    with pytest.raises(ValueError, match=r"least 200 of stage together: .* at most 127"):
        stage(bound=2**24, least=200)

"""The bytes of a public side: one form, and nothing that no campaign gives."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest

from stream_app.campaigns.features import features_of, matrix
from stream_app.campaigns.learning import stage_learning as stages
from stream_app.campaigns.plan import Campaign
from stream_app.campaigns.planning import Outline, plan
from stream_app.campaigns.public_side import PublicSide, decode_side, encode_side

ITEMS = 12
OUTLINE = Outline(Fraction(2), Fraction(1, 10**6), 2, ("together", "stars"), together_items=5)
PLAN = plan(OUTLINE, range(ITEMS))
FEATURES = features_of([(("ab"[item % 2],), 1980 + item) for item in range(ITEMS)])
META = plan(OUTLINE, range(ITEMS), features=FEATURES)
BOTH = pytest.mark.parametrize("campaign", [PLAN, META], ids=["ids", "meta"])


def after(count: int, campaign: Campaign = PLAN) -> PublicSide:
    """Return the side after so many stages, of sums of nothing but large noise."""
    random, side = np.random.default_rng(0), PublicSide.begin(campaign)
    for index, stage in enumerate(campaign.stages[:count]):
        noisy = random.integers(-(2**18), 2**18, stage.size)
        side = stages.learn(campaign, index, side, noisy, 700)
    return side


@BOTH
@pytest.mark.parametrize("count", range(1 + len(PLAN.stages)))
def test_a_side_is_read_as_it_was_learned(count: int, campaign: Campaign) -> None:
    side = after(count, campaign)
    found = decode_side(encode_side(side))
    assert encode_side(found) == encode_side(side)
    assert (found.number, found.scope) == (side.number, side.scope)
    assert found.features == side.features == campaign.public_features
    assert (found.together is None) == (count == 0)
    assert (found.stars is None) == (count <= 1)
    if side.stars is None or found.stars is None:
        return
    for name, value in vars(side.stars).items():
        other = getattr(found.stars, name)
        assert np.array_equal(other, value), name
        assert getattr(other, "dtype", type(other)) == getattr(value, "dtype", type(value)), name


@BOTH
@pytest.mark.parametrize("count", range(1, len(PLAN.stages)))
def test_a_side_that_was_read_learns_the_next_stage_to_the_same_bytes(
    count: int, campaign: Campaign
) -> None:
    """Without rounding of what is learned a restarted worker would hold another state."""
    noisy = np.random.default_rng(9).integers(-(2**18), 2**18, PLAN.stages[count].size)
    side = after(count, campaign)
    expected = encode_side(stages.learn(campaign, count, side, noisy, 700))
    read = decode_side(encode_side(side))
    assert encode_side(stages.learn(campaign, count, read, noisy, 700)) == expected


@pytest.mark.parametrize("value", [-(2**31), 2**31 - 1, 0], ids=["least", "greatest", "zeros"])
def test_the_largest_integers_give_a_side(value: int) -> None:
    side = PublicSide(PLAN.number, PLAN.scope)
    for index, stage in enumerate(PLAN.stages):
        side = stages.learn(PLAN, index, side, np.full(stage.size, value, np.int64), 2)
        assert encode_side(decode_side(encode_side(side))) == encode_side(side)


def stars(**changes: Any) -> bytes:
    fields = msgspec.msgpack.decode(encode_side(after(6)))
    return msgspec.msgpack.encode({**fields, "stars": fields["stars"] | changes})


def places(*numbers: int) -> bytes:
    return np.array(numbers, "<u4").tobytes()


def floats(count: int, value: float = 0.0) -> bytes:
    return np.full(count, value, "<f4").tobytes()


REFUSED = {
    "a bias too few": {"biases": floats(ITEMS - 1)},
    "a count too many": {"counts": floats(ITEMS + 1)},
    "half a number": {"counts": bytes(4 * ITEMS + 2)},
    "vectors of another width": {"vectors": floats(3 * ITEMS)},
    "no factors": {"factors": 0, "vectors": b"", "whitening": b"", "spread": b""},
    "too many factors": {"factors": 33},
    "a whitening too small": {"whitening": floats(3)},
    "no number": {"spread": floats(4, np.nan)},
    "an infinite number": {"biases": floats(ITEMS, np.inf)},
    "a bias beyond the limit": {"biases": floats(ITEMS, 8193)},
    "a count beyond the limit": {"counts": floats(ITEMS, 2.0**33 * 1.01)},
    "a precision of none": {"precision": 0.0},
    "an infinite precision": {"precision": 1e300},
    "a precision before any stage": {"stages": 0},
    "stages below none": {"stages": -1},
    "too many stages": {"stages": 65},
    "half a place": {"head": bytes(6)},
    "a place outside": {"head": places(1, ITEMS)},
    "a place twice": {"head": places(1, 1)},
    "falling places": {"head": places(2, 1)},
    "a field of the future": {"more": 1},
}


@pytest.mark.parametrize("changes", REFUSED.values(), ids=REFUSED)
def test_a_side_of_no_campaign_is_refused(changes: dict[str, Any]) -> None:
    assert decode_side(stars()).stars is not None
    with pytest.raises(ValueError, match=r"."):
        decode_side(stars(**changes))


def test_features_are_those_of_the_plan() -> None:
    """In the side as they are in the plan, so a reader of the side needs no plan, and computed into
    numbers by every reader."""
    for count in (2, len(META.stages)):
        found = decode_side(encode_side(after(count, META))).stars
        assert found is not None
        assert np.array_equal(found.features, matrix(FEATURES))
        assert found.features.shape == (ITEMS, 4)


def test_features_change_what_is_learned() -> None:
    plain, meta = after(2).stars, after(2, META).stars
    assert plain is not None
    assert meta is not None
    assert np.array_equal(plain.counts, meta.counts)
    assert not np.allclose(plain.biases, meta.biases)


@pytest.mark.parametrize("wrong", [None, features_of([((), 1980)] * (ITEMS - 1)), b"", 1])
@pytest.mark.parametrize("count", [1, 6], ids=["without stars", "with stars"])
def test_a_side_with_features_of_other_items_is_refused(count: int, wrong: object) -> None:
    fields = msgspec.msgpack.decode(encode_side(after(count, META)))
    assert decode_side(msgspec.msgpack.encode(fields)).features == FEATURES
    with pytest.raises(ValueError, match=r"."):
        decode_side(msgspec.msgpack.encode(fields | {"features": wrong}))


def test_another_version_is_refused() -> None:
    fields = msgspec.msgpack.decode(encode_side(after(3)))
    with pytest.raises(ValueError, match="version 2 of a public item side"):
        decode_side(msgspec.msgpack.encode(fields | {"v": 2}))

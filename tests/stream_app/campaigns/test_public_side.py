"""The public item side of a campaign: learned from any sum, and read as it was written."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from stream_app.campaigns import learning
from stream_app.campaigns.public_side import PublicSide, decode_side, encode_side
from tests.fixtures.campaigns import noisy, plan

PLAN = plan()
SIDE = learning.learn(PLAN, 0, noisy())


@pytest.mark.parametrize("side", [SIDE, PublicSide(1, PLAN.scope)], ids=["learned", "begun"])
def test_a_side_is_read_as_it_was_written(side: PublicSide) -> None:
    found = decode_side(encode_side(side))
    assert encode_side(found) == encode_side(side)
    assert (found.number, found.scope) == (side.number, side.scope)
    if side.together is None or found.together is None:
        assert side.together is found.together is None
        return
    for name, value in vars(side.together).items():
        other = getattr(found.together, name)
        assert np.array_equal(other, value), name
        assert other.dtype == value.dtype, name


@pytest.mark.parametrize("value", [-(2**31), 2**31 - 1, 0], ids=["least", "greatest", "zeros"])
def test_the_largest_integers_give_a_side(value: int) -> None:
    side = learning.learn(PLAN, 1, np.full(PLAN.stages[1].size, value, np.int64))
    assert encode_side(decode_side(encode_side(side))) == encode_side(side)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"v": 2}, "version 2 of a public item side"),
        ({"more": 1}, "unknown field"),
        ({"scope": []}, "length >= 1"),
    ],
)
def test_another_side_is_refused(changes: dict[str, object], sentence: str) -> None:
    fields = msgspec.msgpack.decode(encode_side(SIDE))
    with pytest.raises(ValueError, match=sentence):
        decode_side(msgspec.msgpack.encode(fields | changes))

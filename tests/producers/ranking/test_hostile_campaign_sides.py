"""Whatever stands in the topic of sides: a device makes a list of it, or refuses it."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from producers.ranking import LocalRecommender
from producers.ranking.published import PublicTable
from stream_app.campaigns.public_side import (
    PublishedSideError,
    decode_published,
    encode_published,
)
from tests.fixtures.tastes import TASTES, side_of

RATED = [(item, 5.0) for item in TASTES[0][:6]] + [(TASTES[1][0], 1.0), ("elsewhere", None)]


WHOLE = encode_published(side_of())


def listed(value: bytes) -> bool:
    """Return whether bytes give a list; a refusal is the only error that is let through."""
    try:
        side = decode_published(value)
    except PublishedSideError:
        return False
    for rated in (RATED, []):
        found = LocalRecommender(PublicTable(side)).recommend(rated, 10, because=True)
        assert np.isfinite([row.score for row in found.items]).all()
    return True


def test_the_side_itself_gives_a_list() -> None:
    assert listed(WHOLE)
    side = decode_published(WHOLE).side
    assert side.together is not None
    assert not side.together.is_popular


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(1, 255)), max_size=4))
def test_changed_bytes_give_a_list_or_a_sentence(changes: list[tuple[int, int]]) -> None:
    value = bytearray(WHOLE)
    for at, by in changes:
        value[at] ^= by
    listed(bytes(value))


NUMBERS = st.one_of(
    st.floats(width=32, allow_nan=True),
    st.sampled_from([0.0, 1.0, -1.0, 8192.0, -8192.0, 3e38, float("nan"), float("inf")]),
)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(["vectors", "weights"]), NUMBERS)
@example("weights", 2.0**33)
def test_any_numbers_give_a_list_or_a_sentence(name: str, number: float) -> None:
    outer = msgspec.msgpack.decode(WHOLE)
    side = msgspec.msgpack.decode(outer["side"])
    size = len(side["together"][name]) // 4
    side["together"][name] = np.full(size, number, "<f4").tobytes()
    listed(msgspec.msgpack.encode(outer | {"side": msgspec.msgpack.encode(side)}))


@pytest.mark.parametrize("cut", [0, 1, 100, len(WHOLE) // 2, len(WHOLE) - 1])
def test_a_part_of_a_side_is_a_sentence(cut: int) -> None:
    assert not listed(WHOLE[:cut])

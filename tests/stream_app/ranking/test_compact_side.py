"""The item side as bytes: what comes back, how large it is, and which bytes are refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_app.ranking.compact_side import (
    MOST_BYTES,
    CompactSideError,
    decode_side,
    encode_side,
)
from stream_app.ranking.item_side import ItemSide
from tests.fixtures.item_sides import item_side

EXACT = ("keys", "popularity", "liking", "ratings", "next_weights", "now_weights")
TABLES = ("link", "within", "between")


@given(
    st.integers(0, 2**32), st.integers(1, 40), st.integers(0, 12), st.integers(0, 12),
    st.integers(0, 5), st.booleans(),
)  # fmt: skip
def test_an_item_side_comes_back_within_the_error_of_its_codes(
    seed: int, n: int, k: int, after: int, r: int, learned: bool
) -> None:
    side = item_side(
        np.random.default_rng(seed), n, min(k, n), min(after, n), r, version=seed,
        later=min(k, n) // 2, learned=learned,
    )  # fmt: skip
    found = decode_side(encode_side(side))
    assert found.version == side.version
    for name in EXACT:
        assert np.array_equal(getattr(found, name), getattr(side, name))
    for links in TABLES:
        wanted = dense(side, links)
        error = np.abs(dense(found, links) - wanted).max(axis=1)
        assert (error <= np.abs(wanted).max(axis=1) / 253).all()
    largest = np.abs(side.factors).max(axis=1, initial=0)[:, None]
    assert (np.abs(found.factors - side.factors) <= largest / 253).all()


def dense(side: ItemSide, links: str) -> np.ndarray:
    matrix = np.zeros((len(side), len(side)))
    targets, weights = getattr(side, f"{links}_targets"), getattr(side, f"{links}_weights")
    np.add.at(matrix, (np.arange(len(side))[:, None], targets), weights)
    return matrix


def test_the_largest_head_fits_and_loses_the_weakest_links_only(rng: np.random.Generator) -> None:
    side = item_side(rng, 4096, 120, 60, 48)
    data = encode_side(side)
    assert 0.99 * MOST_BYTES < len(data) <= MOST_BYTES
    found = decode_side(data)
    k, after = found.link_targets.shape[1], found.within_targets.shape[1]
    assert k >= 100
    assert after >= 50
    strongest = -np.sort(-np.abs(side.link_weights), axis=1)[:, :k]
    assert np.allclose(np.abs(found.link_weights), strongest, atol=strongest.max() / 200)
    assert len(encode_side(item_side(rng, 4096, 100, 50, 48))) <= MOST_BYTES


def test_equal_sides_have_equal_bytes(rng: np.random.Generator) -> None:
    side = item_side(rng, 50, 9, 5, 3)
    shuffled = rng.permuted(np.broadcast_to(np.arange(9), (50, 9)), axis=1)
    other = replace(
        side,
        link_targets=np.take_along_axis(side.link_targets, shuffled, 1),
        link_weights=np.take_along_axis(side.link_weights, shuffled, 1),
    )
    assert encode_side(other) == encode_side(side)


def test_no_item_and_numbers_that_are_not_finite_are_not_encoded(
    rng: np.random.Generator,
) -> None:
    side = item_side(rng, 3, 2)
    with pytest.raises(ValueError, match="0 items: 1 to 4096"):
        encode_side(item_side(rng, 0))
    with pytest.raises(ValueError, match="4097 items: 1 to 4096"):
        encode_side(item_side(rng, 4097))
    with pytest.raises(ValueError, match="popularity are not all finite"):
        encode_side(replace(side, popularity=np.float32([1, np.nan, 0])))
    with pytest.raises(ValueError, match="link weights are not all finite"):
        encode_side(replace(side, link_weights=np.full((3, 2), np.inf, np.float32)))
    with pytest.raises(ValueError, match="lead to slot 3 of 3"):
        encode_side(replace(side, link_targets=np.full((3, 2), 3, np.uint16)))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda data: b"", "no item side"),
        (lambda data: data[:20], "no item side"),
        (lambda data: b"?" + data[1:], "no item side"),
        (lambda data: data[:4] + b"\1" + data[5:], "format 1: this version reads format 2"),
        (lambda data: data[:-1], "bytes in place of"),
        (lambda data: data + b"\0", "bytes in place of"),
        (lambda data: data[:13] + bytes(4) + data[17:], "0 items"),
        (lambda data: data[:17] + b"\xff" * 4 + data[21:], "at most 4,096"),
        (lambda data: data[:41] + data[49:57] + data[49:], "an item occurs twice"),
        (lambda data: data[:33] + b"\5" + data[34:], "5 and 0 weights: none, or 18"),
        (lambda data: data[:57] + bytes(4) + data[61:], "popularity is not above 0"),
        (lambda data: data[:-5] + b"\0\0\x80\x7f" + data[-1:], "not finite"),
    ],
)
def test_bytes_that_are_no_item_side_are_refused(change, sentence: str) -> None:
    data = encode_side(item_side(np.random.default_rng(1), 1 + 1, 1, 1, 0))
    if sentence == "not finite":
        data = encode_side(item_side(np.random.default_rng(1), 1, 0, 0, 1))
    with pytest.raises(CompactSideError, match=sentence):
        decode_side(change(data))


def test_a_link_to_a_slot_beyond_the_head_is_refused() -> None:
    data = encode_side(item_side(np.random.default_rng(1), 3, 1))
    targets = 41 + 3 * 8 + 4 * 3 * 4 + 3 * 4
    with pytest.raises(CompactSideError, match="a link leads to slot 4095 of 3"):
        decode_side(data[:targets] + b"\xff" * 6 + data[targets + 6 :])


@given(st.data())
def test_any_bytes_are_an_item_side_or_refused(data: st.DataObject) -> None:
    whole = encode_side(item_side(np.random.default_rng(2), 4, 2, 1, 2))
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = bytearray(whole)
    changed[at] ^= data.draw(st.integers(1, 255))
    try:
        found = decode_side(bytes(changed[: data.draw(st.integers(0, len(whole)))]))
    except CompactSideError:
        return
    assert len(found) == 4
    assert max(found.link_targets.max(), found.within_targets.max()) < 4

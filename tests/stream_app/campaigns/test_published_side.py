"""The published side of a campaign: it comes back as it was, and other bytes are one sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_app.campaigns import learning
from stream_app.campaigns.public_side import (
    PublicSide,
    PublishedSide,
    PublishedSideError,
    decode_published,
    encode_published,
    encode_side,
)
from stream_app.campaigns.together import TogetherSide
from stream_app.wire import key
from tests.fixtures.campaigns import ITEMS, noisy, plan


def published(number: int = 1, released: int = 1) -> PublishedSide:
    campaign = plan(number)
    return PublishedSide.of_campaign(campaign, released, learning.learn(campaign, 0, noisy()))


def test_a_side_comes_back_with_the_terms_of_its_plan() -> None:
    written = published(7)
    read = decode_published(encode_published(written))
    terms = read.plan, read.released, read.stages, read.epsilon, read.delta, read.parties
    campaign = plan(7)
    assert terms == (campaign.digest, 1, 2, campaign.epsilon, campaign.delta, 1)
    assert encode_side(read.side) == encode_side(written.side)
    assert read.keys.tolist() == [key(item) for item in campaign.scope]


def fields(**changed: Any) -> bytes:
    found = msgspec.msgpack.decode(encode_published(published()))
    return msgspec.msgpack.encode(found | changed)


def of_side(change: Callable[[PublicSide], PublicSide]) -> bytes:
    found = published()
    return encode_published(replace(found, side=change(found.side)))


def of_together(vectors: float, weights: float) -> bytes:
    made = TogetherSide(np.full((ITEMS, 3), vectors, np.float32), np.full(3, weights, np.float32))
    return of_side(lambda side: replace(side, together=made))


def scope_twice() -> bytes:
    return of_side(lambda side: replace(side, scope=(1, *side.scope[1:])))


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (b"", "format 0: this version reads format 1"),
        (b"\xc1", "format 0"),
        (b"\x91" * 5000, "format 0"),
        (fields(v=2), "format 2: this version reads format 1"),
        (fields(more=1), "unknown field"),
        (fields(plan=bytes(31)), "no side of a campaign"),
        (fields(released=0), "no side of a campaign"),
        (fields(released=3), "3 stages released of 2"),
        (fields(epsilon="2/4"), "lowest terms"),
        (fields(epsilon="-1"), "a rational is text"),
        (fields(delta="1"), "delta 1: below 1"),
        (fields(parties=3), "no side of a campaign"),
        (fields(side=b"\xc1"), "no side of a campaign"),
        (bytes(2**21 + 1), "2097153 bytes: a side has at most 2097152"),
        (of_together(np.nan, 0.5), "finite numbers only"),
        (of_together(np.inf, 0.5), "finite numbers only"),
        (of_together(1e38, 0.5), "a direction is a unit vector"),
        (of_together(0.1, 1.1), "a weight from 0 to 1"),
        (of_together(0.1, -0.1), "a weight from 0 to 1"),
        (scope_twice(), "an item is in the scope twice"),
    ],
)  # fmt: skip
def test_what_is_no_side_is_refused_with_one_sentence(value: bytes, sentence: str) -> None:
    with pytest.raises(PublishedSideError, match=sentence) as caught:
        decode_published(value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@given(st.binary(max_size=200))
def test_random_bytes_are_refused(value: bytes) -> None:
    with pytest.raises(PublishedSideError):
        decode_published(value)


@given(st.data())
def test_a_changed_byte_gives_a_side_or_a_refusal(data: st.DataObject) -> None:
    whole = encode_published(published())
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :]
    for value in (changed, whole[:at]):
        try:
            found = decode_published(value)
        except PublishedSideError:
            continue
        assert found.side.together is not None
        assert np.isfinite(found.side.together.vectors).all()

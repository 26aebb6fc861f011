"""Shares and boxes: together they are the vector; one alone says nothing about it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nacl import bindings

from stream_app.campaigns.sealing import as_words, box_bytes, open_box, seal, within
from stream_app.campaigns.verified.field import add, centered, encode
from stream_app.privacy.randomness import SystemSource
from stream_app.wire.campaigns.contribution import Contribution, encode_contribution
from tests.stream_app.wire.campaigns.plans import campaign, stage

PAIRS = (bindings.crypto_box_keypair(), bindings.crypto_box_keypair())
PUBLIC = tuple(public.hex() for public, _ in PAIRS)
SPLIT = campaign(keys=PUBLIC)
CENTRAL = campaign(parties=1, keys=PUBLIC[:1])
DEVICE = bytes(range(16))
VECTOR = np.array([1, -2, 3, 0, -60, 79])


def opened(plan, made, party, pair=None):
    return open_box(plan, made, party, *(pair or PAIRS[party]))


def test_the_shares_of_both_parties_add_up_to_the_vector():
    made = seal(SPLIT, 0, DEVICE, VECTOR, SystemSource())
    shares = [opened(SPLIT, made, party) for party in (0, 1)]
    assert centered(add(*shares)).tolist() == VECTOR.tolist()
    again = seal(SPLIT, 0, DEVICE, VECTOR, SystemSource())
    assert not np.array_equal(opened(SPLIT, again, 0), shares[0])


def test_a_trusted_party_opens_the_vector():
    made = seal(CENTRAL, 0, DEVICE, VECTOR, SystemSource())
    assert opened(CENTRAL, made, 0).view(np.int32).tolist() == VECTOR.tolist()


INTEGERS = st.integers(-(2**31), 2**31 - 1)


@given(st.lists(INTEGERS, min_size=1, max_size=40))
def test_words_are_naive_modular_arithmetic(integers):
    assert as_words(np.array(integers)).tolist() == [x % 2**32 for x in integers]


@pytest.mark.parametrize("party", [0, 1])
def test_a_share_is_uniform_whatever_the_vector_is(party):
    """Each byte of a party's shares, of vectors as unlike as can be, against the uniform law.

    Chi-square with 255 degrees of freedom, 2^15 bytes each; 420 is exceeded by chance with
    probability 1e-9, times 36 tests: false alarms below 1e-7. Power: a seed used for two vectors,
    or a share that is the vector, gives all its weight to a few bytes and a statistic above 10^5.
    """
    size = 1 << 12
    plan = campaign(keys=PUBLIC, stages=(stage(size=size, bound=2048), stage()))
    for vector in (np.zeros(size, int), np.full(size, 32), np.eye(1, size, dtype=int)[0] * 2048):
        made = [seal(plan, 0, DEVICE, vector, SystemSource()) for _ in range(8)]
        shares = np.concatenate([opened(plan, each, party) for each in made])
        for column in np.frombuffer(encode(shares), np.uint8).reshape(-1, 6).T:
            counts = np.bincount(column, minlength=256)
            expected = len(column) / 256
            assert ((counts - expected) ** 2 / expected).sum() < 420


def test_the_size_of_a_record_says_nothing():
    vectors = (np.zeros(6, int), np.array([100, 0, 0, 0, 0, 0]), VECTOR)
    made = [seal(SPLIT, 0, DEVICE, vector, SystemSource()) for vector in vectors]
    assert len({len(encode_contribution(each)) for each in made}) == 1
    assert [len(box) for box in made[0].boxes] == [box_bytes(SPLIT, 0, party) for party in (0, 1)]
    # A seed and 13 commitments; a commitment, a blind, 6 + 1947 + 4 x 11 residues.
    assert [box_bytes(SPLIT, 0, party) for party in (0, 1)] == [80 + 32 * 14, 80 + 64 + 6 * 1997]
    assert box_bytes(CENTRAL, 0, 0) == 80 + 24


def moved(made, **changes):
    fields = {name: getattr(made, name) for name in ("plan", "stage", "device", "boxes")}
    return Contribution(**(fields | changes))


@pytest.mark.parametrize("party", [0, 1])
def test_a_box_opens_only_for_its_party_in_its_place(party):
    made = seal(SPLIT, 0, DEVICE, VECTOR, SystemSource())
    assert opened(SPLIT, made, party) is not None
    flipped = bytearray(made.boxes[party])
    flipped[-1] ^= 1
    boxes = [bytes(flipped)] * 2
    for wrong, pair in (
        (made, PAIRS[1 - party]),
        (moved(made, device=bytes(16)), None),
        (moved(made, stage=1), None),
        (moved(made, plan=campaign(number=2).digest), None),
        (moved(made, boxes=tuple(boxes)), None),
        (moved(made, boxes=made.boxes[::-1]), None),
        (moved(made, boxes=(bytes(80), bytes(80))), None),
    ):
        assert opened(SPLIT, wrong, party, pair) is None


def test_a_box_of_another_length_is_not_taken():
    longer = campaign(keys=PUBLIC, stages=(stage(size=7), stage()))
    made = seal(longer, 0, DEVICE, np.append(VECTOR, 0), SystemSource())
    assert opened(longer, made, 1) is not None
    assert opened(SPLIT, made, 1) is None


@pytest.mark.parametrize(
    ("vector", "words"),
    [
        (np.zeros(5, int), "takes"),
        (np.zeros((6, 1), int), "takes"),
        (np.array([100, 1, 0, 0, 0, 0]), "beyond the bound"),
        (np.array([-(2**62), 0, 0, 0, 0, 0]), "beyond the bound"),
    ],
)
def test_what_is_not_of_the_stage_is_not_sealed(vector, words):
    with pytest.raises(ValueError, match=words):
        seal(SPLIT, 0, DEVICE, vector, SystemSource())
    with pytest.raises(ValueError, match="no keys"):
        seal(campaign(keys=()), 0, DEVICE, VECTOR, SystemSource())


@given(st.lists(INTEGERS, min_size=1, max_size=9), st.integers(1, 2**24))
def test_the_bound_is_exact(integers, bound):
    naive = sum(x * x for x in integers) <= bound**2
    assert within(np.array(integers, np.int32), bound) == naive


def test_the_bound_is_exact_at_its_edge():
    edge = np.full(48_000, 2**24, np.int64)
    assert not within(edge, 2**24)
    assert within(np.array([3, 4]), 5)
    assert not within(np.array([3, 4, 1]), 5)
    assert not within(np.array([-(2**31)], np.int32), 2**24)

"""Arithmetic of arrays modulo p against Python's integers."""

from __future__ import annotations

import numpy as np
import pytest

from stream_app.campaigns.verified import field
from stream_app.campaigns.verified.field import P

EDGES = [0, 1, 2, P // 2, P // 2 + 1, P - 2, P - 1, 2**24 - 1, 2**24, 2**47]


@pytest.fixture
def pairs(rng):
    a = np.array([x for x in EDGES for _ in EDGES], np.uint64)
    b = np.array([x for _ in EDGES for x in EDGES], np.uint64)
    more = rng.integers(0, P, (2, 5000), dtype=np.uint64)
    return np.concatenate((a, more[0])), np.concatenate((b, more[1]))


def test_p_is_prime_and_has_a_field_of_p_squared():
    """Miller and Rabin with the bases that decide below 3.3e24 (Sorenson and Webster 2015)."""
    odd, twos = P - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41):
        powers = [pow(base, odd << n, P) for n in range(twos)]
        assert powers[0] == 1 or P - 1 in powers
    assert P % 4 == 3  # so -1 has no root


def test_sums_and_products_are_those_of_integers(pairs):
    a, b = pairs
    both = list(zip(a.tolist(), b.tolist(), strict=True))
    assert field.add(a, b).tolist() == [(x + y) % P for x, y in both]
    assert field.sub(a, b).tolist() == [(x - y) % P for x, y in both]
    assert field.mul(a, b).tolist() == [x * y % P for x, y in both]
    assert int(field.total(a)) == sum(a.tolist()) % P


def test_products_of_pairs_are_those_of_the_larger_field(pairs):
    a, b = (each[:5000].reshape(2, -1) for each in pairs)
    found = field.times(a, b)
    for (x, y), (z, w), got in zip(a.T.tolist(), b.T.tolist(), found.T.tolist(), strict=True):
        assert got == [(x * z - y * w) % P, (x * w + y * z) % P]


@pytest.mark.parametrize("count", [1, 5, 2047, 2048, 3000])
def test_sums_of_products_are_those_of_the_products(count, rng):
    """Of few and of many, which are products of limbs."""
    a, b = rng.integers(0, P, (2, 2, 3, count), dtype=np.uint64)
    a[:, 0], b[:, 0] = P - 1, P - 1
    assert field.inner(a, b).tolist() == field.total(field.times(a, b)).tolist()


def test_any_word_is_reduced(rng):
    edges = np.array([2**64 - 1, P, 2**48 - 1], np.uint64)
    words = np.append(rng.integers(0, 2**64, 5000, dtype=np.uint64), edges)
    assert field.reduced(words).tolist() == [each % P for each in words.tolist()]


def test_signed_integers_come_back():
    values = np.array([0, 1, -1, 2**31, -(2**31), P // 2, -(P // 2)])
    assert field.centered(field.residues(values)).tolist() == values.tolist()


def test_residues_survive_the_wire_and_others_are_none(pairs):
    values = pairs[0]
    data = field.encode(values)
    assert len(data) == 6 * len(values)
    assert field.decode(data).tolist() == values.tolist()
    assert field.decode(P.to_bytes(6, "little")) is None


def test_words_that_are_no_residues_are_left_out():
    words = np.array([P, P - 1, 2**48 - 1, 2**63 + 5], np.uint64)
    assert field.uniform(words).tolist() == [P - 1, 5]

"""Products with the rows R and with the weights of a point, against Python's integers."""

from __future__ import annotations

import numpy as np
import pytest

from stream_app.campaigns.verified import field, rows
from stream_app.campaigns.verified.field import P
from stream_app.campaigns.verified.layout import MAX_SIZE, ROWS


def residues_of(rng, shape, most=P):
    found = rng.integers(0, most, shape, dtype=np.uint64)
    found.flat[0] = P - 1
    return found


def naive_rows(bits, size):
    """Return R (size, ROWS) bit by bit, the highest of each byte first."""
    found = np.zeros((size, ROWS), object)
    for place in range(size):
        drawn = [
            byte >> n & 1 for byte in bits[32 * place : 32 * place + 32] for n in reversed(range(8))
        ]
        found[place] = [drawn[n] - drawn[ROWS + n] for n in range(ROWS)]
    return found


@pytest.mark.parametrize("size", [1, 7, 1023, 1024, 1025, 2050])
def test_products_with_the_rows_are_those_of_integers(size, rng):
    """Below, at and above the part of R that is made at a time."""
    bits, share = rng.bytes(rows.row_bytes(size)), residues_of(rng, size)
    wanted = (share.astype(object) @ naive_rows(bits, size)) % P
    assert rows.products(bits, share).tolist() == wanted.tolist()


def test_the_largest_sum_of_a_row_is_exact():
    """Every entry of R is 1, and every residue has all bits of its limbs."""
    bits = (b"\xff" * 16 + b"\0" * 16) * MAX_SIZE
    for share in (np.full(MAX_SIZE, P - 1, np.uint64), np.full(MAX_SIZE, 2**47 - 1, np.uint64)):
        wanted = int(share[0]) * MAX_SIZE % P
        assert rows.products(bits, share).tolist() == [wanted] * ROWS


def naive_weights(points):
    """Return the weights as pairs: 1 - r or r of each point, the first for the highest bit."""
    found = [(1, 0)]
    for x, y in points.T.tolist():
        factors = ((1 - x, -y), (x, y))
        found = [((a * c - b * d) % P, (a * d + b * c) % P) for a, b in found for c, d in factors]
    return found


@pytest.mark.parametrize("count", [0, 1, 4, 5, 9])
def test_weights_are_products_of_one_minus_a_point_or_the_point(count, rng):
    points = residues_of(rng, (2, count)) if count else np.zeros((2, 0), np.uint64)
    assert rows.tensor(points).T.tolist() == [list(each) for each in naive_weights(points)]


@pytest.mark.parametrize("count", [2, 5, 12])
def test_a_point_gives_the_weights_of_places_and_their_sum(count, rng):
    points, values = residues_of(rng, (2, count)), residues_of(rng, 2**count)
    point, weights = rows.Point(points), naive_weights(points)
    places = rng.integers(0, 2**count, 20)
    assert point.at(places).T.tolist() == [list(weights[place]) for place in places]
    wanted = [
        sum(value * weight[part] for value, weight in zip(values.tolist(), weights, strict=True))
        for part in (0, 1)
    ]
    assert point.sum(values).tolist() == [each % P for each in wanted]


def test_the_largest_sum_of_a_point_is_exact():
    values = np.full(1 << 16, P - 1, np.uint64)
    points = np.full((2, 16), P - 1, np.uint64)
    weights = np.array(naive_weights(points), object).sum(axis=0)
    assert rows.Point(points).sum(values).tolist() == [(P - 1) * each % P for each in weights]


def test_parts_are_joined_whatever_their_sign():
    parts = np.array([[-1, 2**62], [5, -(2**62)], [0, P]])
    wanted = [(a + (b << 12) + (c << 24)) % P for a, b, c in parts.T.tolist()]
    assert field.joined(parts, 12).tolist() == wanted

"""Products of matrices have the bits of a loop in Python: one order, nothing fused."""

from __future__ import annotations

import numpy as np
import pytest

from stream_app.kernels import linear_algebra
from tests.naive import ordered_sums as naive


@pytest.mark.parametrize(("n", "a", "b"), [(1, 1, 1), (3, 2, 5), (40, 9, 7), (0, 3, 2)])
def test_both_products_have_the_bits_of_a_plain_loop(n, a, b):
    random = np.random.default_rng(n)
    left, right = random.normal(size=(n, a)), random.normal(size=(n, b))
    weights, out = random.random(n), np.full((a, b), np.nan)
    linear_algebra.weighted_gram(left, weights, right, out)
    assert np.array_equal(out, naive.weighted_gram(left, weights, right))
    turned, found = np.ascontiguousarray(right.T), np.full((n, n), np.nan)
    if a == b:
        linear_algebra.product(left, turned, found)
        assert np.array_equal(found, naive.product(left, turned))
    square, result = random.normal(size=(a, 4)), np.full((n, 4), np.nan)
    linear_algebra.product(left, square, result)
    assert np.array_equal(result, naive.product(left, square))

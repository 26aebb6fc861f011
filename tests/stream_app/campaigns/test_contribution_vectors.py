"""The norm of what is sent is within its bound, in integers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from stream_app.campaigns.contribution_vectors import MAX_BOUND, is_within, to_grid

FLOATS = st.floats(-1e300, 1e300) | st.floats(-2, 2) | st.sampled_from([0.5, -0.5, 1e-300, 5e-324])


def norm_square(integers: np.ndarray) -> int:
    return sum(int(z) ** 2 for z in integers)


@given(st.integers(0, 60).flatmap(lambda n: arrays(np.float64, n, elements=FLOATS)), st.data())
def test_no_vector_is_longer_than_its_bound(vector, data):
    bound = data.draw(st.integers(1, MAX_BOUND))
    sent = to_grid(vector, bound)
    assert sent.dtype == np.int32
    assert norm_square(sent) <= bound**2
    assert is_within(sent, bound)


@given(st.integers(1, 400), st.integers(1, 300))
def test_equal_entries_that_all_round_up_are_within_the_bound(n, bound):
    sent = to_grid(np.full(n, 1 / math.sqrt(n)), bound)
    assert norm_square(sent) <= bound**2


@given(st.integers(1, 500), st.integers(0, 2**32))
def test_a_unit_vector_loses_no_more_than_rounding(n, seed):
    vector = np.random.default_rng(seed).normal(size=n)
    vector /= np.linalg.norm(vector)
    sent = to_grid(vector, 4096)
    assert np.abs(sent - 4096 * vector).max() <= 1 + n / 4096


def test_is_within_counts_in_integers():
    assert is_within(np.array([3, 4]), 5)
    assert not is_within(np.array([3, 4, 1]), 5)
    assert is_within(np.array([MAX_BOUND], np.int32), MAX_BOUND)
    assert not is_within(np.array([-(2**31)], np.int32), MAX_BOUND)


@pytest.mark.parametrize("bound", [0, MAX_BOUND + 1])
def test_a_bound_off_the_range_is_refused(bound):
    with pytest.raises(ValueError, match=f"bound {bound}: give 1 to {MAX_BOUND}"):
        to_grid(np.zeros(2), bound)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_refused(value):
    with pytest.raises(ValueError, match="finite"):
        to_grid(np.array([0.1, value]), 10)

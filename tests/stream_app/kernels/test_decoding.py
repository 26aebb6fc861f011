"""The exact-channel decode against Bayes' rule by enumeration."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from stream_app.kernels.factorization.posterior import update_posterior
from stream_app.kernels.machine.scalars import exponential
from stream_app.models.factorization.channels import level_priors
from tests.naive import learning as naive

PUBLIC = np.zeros(256)  # P(z | no rating) where presence is public


@njit
def exponentials(x, out):
    for n in range(x.size):
        out[n] = exponential(x[n])


def decoded(
    rhat: float, V: float, z: int, channel: np.ndarray, levels: int, absent: np.ndarray, g: float
) -> tuple[float, float, float]:
    """Call the kernel with its columns: P(z | no rating) and P(z | level)."""
    rows = np.hstack((absent[: len(channel), None], channel))
    facts = np.array([[0, len(channel), levels, 0, 0]])
    table = level_priors(levels)
    return update_posterior(rhat, V, z, rows, table, facts, 0, np.array([9.0, g]), 1)  # type: ignore[no-any-return]


def randomized_response(levels: int, epsilon: float) -> np.ndarray:
    e = math.exp(epsilon)
    channel = np.full((levels, levels), 1 / (e + levels - 1))
    np.fill_diagonal(channel, e / (e + levels - 1))
    return channel


def test_the_exponential_is_right_to_ten_digits_over_its_range():
    x = np.concatenate([np.linspace(-690, 690, 20_001), np.linspace(-1, 1, 1001), [0.0]])
    out = np.empty_like(x)
    exponentials(x, out)
    assert np.abs(out / np.exp(x) - 1).max() < 1e-11


def test_the_exponential_stays_finite_beyond_its_range():
    out = np.empty(4)
    exponentials(np.array([1e9, -1e9, 701.0, -701.0]), out)
    assert np.isfinite(out).all()
    assert (out >= 0).all()


@settings(deadline=None, max_examples=300)
@given(
    rhat=st.floats(-20, 30),
    V=st.floats(0.1, 50),
    levels=st.integers(2, 12),
    epsilon=st.floats(0.01, 8),
    pick=st.integers(0, 100),
)
def test_a_report_is_decoded_by_bayes_rule(rhat, V, levels, epsilon, pick):
    channel, z = randomized_response(levels, epsilon), pick % levels
    found = decoded(rhat, V, z, channel, levels, PUBLIC, 1.0)
    assert found == pytest.approx(naive.decode(rhat, V, channel, z), abs=1e-7, rel=1e-7)
    assert -1 <= found[1] <= 1


@settings(deadline=None, max_examples=300)
@given(
    rhat=st.floats(-20, 30),
    V=st.floats(0.1, 50),
    levels=st.integers(2, 12),
    epsilon=st.floats(0.01, 8),
    g=st.floats(0, 1),
    pick=st.integers(0, 100),
)
def test_a_report_that_may_be_a_fake_is_decoded_as_a_mixture(rhat, V, levels, epsilon, g, pick):
    """Randomized response over the levels and "missing", against Bayes' rule over all of them."""
    channel, z = randomized_response(levels + 1, epsilon), pick % (levels + 1)
    rated, absent = np.ascontiguousarray(channel[:, :levels]), channel[:, levels].copy()
    found = decoded(rhat, V, z, rated, levels, absent, g)
    wanted = naive.decode(rhat, V, rated, z, absent, g)
    assert found == pytest.approx(wanted, abs=1e-7, rel=1e-7)
    assert -1 <= found[1] <= 1
    if z == levels:  # "missing" is as likely under every level
        assert found[0] == pytest.approx(0, abs=1e-9)
        # A prior so narrow that its variance is held up looks narrowed; no real one comes near.
        assert found[1] == pytest.approx(0, abs=1e-9) or V < 0.5


def test_a_mechanism_that_hides_presence_decodes_like_an_open_one_where_there_is_a_rating():
    """Under g = 1 only the channel's own likelihood counts; under g = 0 nothing is learned."""
    channel = randomized_response(6, 1.5)
    rated, absent = np.ascontiguousarray(channel[:, :5]), channel[:, 5].copy()
    for z in range(6):
        sure = decoded(2.7, 0.9, z, rated, 5, absent, 1.0)
        assert sure == pytest.approx(decoded(2.7, 0.9, z, rated, 5, PUBLIC, 0.3), abs=1e-12)
        assert decoded(2.7, 0.9, z, rated, 5, absent, 0.0) == (0.0, 0.0, absent[z])


def test_the_prior_has_no_effect_where_presence_is_public():
    """Where presence is public the prior is not read, whatever its value."""
    channel = randomized_response(5, 1.0)
    for g in (0.0, 0.5, math.nan):
        assert decoded(3.1, 0.9, 1, channel, 5, PUBLIC, g) == decoded(
            3.1, 0.9, 1, channel, 5, PUBLIC, 1.0
        )


@pytest.mark.parametrize("levels", [2, 5, 10, 256])
def test_channels_that_cannot_be_inverted_are_decoded_too(levels):
    above = np.arange(levels) >= levels // 2
    odds = np.where(above, 0.75, 0.25)
    channel = np.array([1 - odds, odds])  # one bit: "above the middle"
    for rhat in (0.5, 2.2, 4.9):
        for z in (0, 1):
            found = decoded(rhat, 0.9, z, channel, levels, PUBLIC, 1.0)
            assert found == pytest.approx(naive.decode(rhat, 0.9, channel, z), abs=1e-7)


@pytest.mark.parametrize("rhat", [1.15, 1.2, 1.7, 3.0, 4.6, 4.85])
@pytest.mark.parametrize("V", [0.1, 0.733, 5.0])
def test_the_prior_over_two_levels_is_the_predicted_coin(rhat, V):
    """A level that is known for certain is as far from the prior's mean as from the prediction."""
    for z, star in enumerate((1.0, 5.0)):
        error, _, probability = decoded(rhat, V, z, np.eye(2), 2, PUBLIC, 1.0)
        assert error == pytest.approx(star - rhat, abs=1e-12)
        assert probability == pytest.approx(abs(rhat - (5, 1)[z]) / 4, abs=1e-12)


def test_an_uninformative_report_changes_nothing():
    flat = np.full((5, 5), 0.2)
    for z in range(5):
        e, rho, probability = decoded(3.3, 0.9, z, flat, 5, PUBLIC, 1.0)
        assert abs(e) < 1e-12
        assert abs(rho) < 1e-12
        assert probability == pytest.approx(0.2)


def test_a_report_of_probability_zero_changes_nothing():
    channel = np.zeros((3, 2))
    channel[:2] = np.eye(2)
    assert decoded(3.3, 0.9, 2, channel, 2, PUBLIC, 1.0) == (0.0, 0.0, 0.0)
    absent = np.array([0.25, 0.25, 0.5])
    assert decoded(3.3, 0.9, 2, channel, 2, absent, 0.5) == (0.0, 0.0, 0.25)


@pytest.mark.parametrize("levels", [2, 5, 10])
def test_the_prior_has_the_prediction_for_its_mean_and_is_near_the_normal_of_its_width(levels):
    """Mean-matching is what makes the decode nearly lossless; the grid makes it a little wider."""
    x = naive.stars(levels)
    for rhat in np.linspace(1.15, 4.85, 75):
        for V in (0.1, 0.22, 0.5, 0.8, 1.5, 3.0, 40.0):
            pi = naive.prior(rhat, V, levels)
            exact = naive.discrete_normal(rhat, 1 / V, levels)
            assert float(pi @ x) == pytest.approx(rhat, abs=1e-12)
            variances = [float(p @ (x - rhat) ** 2) for p in (pi, exact)]
            assert variances[0] == pytest.approx(variances[1], rel=0.02, abs=0.01)


def test_a_certain_report_moves_the_mean_to_the_level():
    for z in range(5):
        e, rho, _ = decoded(3.2, 0.9, z, np.eye(5), 5, PUBLIC, 1.0)
        assert e == pytest.approx(1 + z - 3.2, abs=1e-4)
        assert rho == pytest.approx(1)

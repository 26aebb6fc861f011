"""Prequential error: debiased through the channel it is that of the true ratings, exactly."""

from __future__ import annotations

from math import isnan, nan, sqrt

import numpy as np
import pytest

from stream_app.monitoring.live_baselines import ItemMeanBaseline
from stream_app.monitoring.prequential_error import LogLoss, PrequentialError
from tests.stream_app.monitoring.channels import STARS, randomized_response, unbiased


def test_before_the_first_event_nothing_is_known() -> None:
    error = PrequentialError()
    assert isnan(error.rmse_reported("all"))
    assert isnan(error.rmse_reported("recent"))
    assert isnan(error.rmse_debiased("all"))
    assert isnan(error.rmse_debiased("recent"))


def test_reported_and_debiased_agree_where_the_channel_is_noiseless() -> None:
    error = PrequentialError()
    stars = np.array([1.0, 5.0, 3.0])
    error.add([2.0, 4.5, 3.0], stars, stars, stars**2)
    assert error.rmse_reported() == pytest.approx(sqrt((1 + 0.25 + 0) / 3))
    assert error.rmse_debiased() == pytest.approx(error.rmse_reported())


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("predicted", [1.0, 2.7, 5.0])
def test_the_debiased_error_is_exactly_that_of_the_true_ratings(
    epsilon: float, predicted: float
) -> None:
    """Exact: the mean over the channel's law itself, as counts of a stream too long to sample."""
    channel = randomized_response(epsilon)
    value, square = unbiased(channel)
    for level in range(5):
        errors = []
        for report in range(5):
            error = PrequentialError()
            error.add(
                [predicted] * 2, [STARS[report]] * 2, [value[report]] * 2, [square[report]] * 2
            )
            f = error._sums[1, 0] / 2
            errors.append(channel[report, level] * f)
        assert sum(errors) == pytest.approx((STARS[level] - predicted) ** 2, abs=1e-9)


@pytest.mark.statistical
def test_noise_moves_the_reported_rmse_and_not_the_debiased_one() -> None:
    """200,000 reports at epsilon 2, seed 7; over 40 seeds the debiased RMSE deviates by .0066.

    The tolerance of .05 is seven deviations (false alarm below 1e-6); without the debiasing the
    RMSE is 1.602, deviation .002, so a missing one is always seen.
    """
    source = np.random.default_rng(7)
    channel = randomized_response(2.0)
    value, square = unbiased(channel)
    levels = source.integers(0, 5, 200_000)
    u = source.random(len(levels))
    reports = (u[:, None] > np.cumsum(channel, axis=0).T[levels]).sum(axis=1).clip(0, 4)
    predicted = STARS[levels] + source.normal(0, 0.9, len(levels))
    error = PrequentialError(recent=200_000)
    error.add(predicted, STARS[reports], value[reports], square[reports])
    assert error.rmse_debiased("all") == pytest.approx(0.9, abs=0.05)
    assert error.rmse_debiased("recent") == pytest.approx(error.rmse_debiased("all"))
    assert error.rmse_reported("all") > 1.55


def test_a_negative_debiased_mean_is_no_number() -> None:
    error = PrequentialError()
    error.add([3.0], [3.0], [3.0], [5.0])
    assert isnan(error.rmse_debiased())
    assert error.rmse_reported() == 0


def test_an_event_whose_channel_has_no_inverse_counts_as_reported_only() -> None:
    error, baseline = PrequentialError(), ItemMeanBaseline()
    stars, values = np.array([3.0, 5.0]), np.array([3.0, nan])
    error.add([3.0, 4.0], stars, values, values**2)
    assert error.rmse_reported("all") == pytest.approx(sqrt(0.5))
    assert error.rmse_debiased("all") == error.rmse_debiased("recent") == 0
    baseline.add(np.array([0, 1]), stars, values, values**2)
    assert baseline.predict(np.array([0, 1])) == pytest.approx([3.0, 3.0])
    error = PrequentialError()
    error.add([4.0], [5.0], [nan], [nan])
    assert isnan(error.rmse_debiased("all"))
    assert isnan(error.rmse_debiased("recent"))


def test_a_missing_report_counts_as_debiased_only() -> None:
    """Its error is a share of all cells' error; without it, fakes would count as ratings."""
    error = PrequentialError()
    error.add_errors(np.array([1.0, nan]), np.array([6.0, -2.0]), np.array([2.5, -0.5]))
    assert error.rmse_reported("all") == error.rmse_reported() == 1
    assert error.rmse_debiased("all") == error.rmse_debiased() == pytest.approx(sqrt(4 / 2))
    error.add_errors(np.array([9.0]), np.array([nan]), np.array([7.0]))
    assert error.rmse_debiased("all") == error.rmse_debiased() == pytest.approx(sqrt(4 / 2))
    error.add_errors(np.array([nan]), np.array([-1.0]), np.array([-3.0]))
    assert isnan(error.rmse_debiased("all"))


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_fakes_cancel_in_the_debiased_error_exactly(rate: float) -> None:
    """Over the law of randomized response on levels and "missing": only true ratings are left."""
    channel = np.full((6, 6), 1.0)
    np.fill_diagonal(channel, np.exp(1.5))
    channel /= channel.sum(axis=0)
    inverse = np.linalg.inv(channel.T)
    value, square, weight = (inverse @ np.append(STARS**power, 0) for power in (1, 2, 0))
    law = np.array([0.1, 0.1, 0.2, 0.3, 0.3])
    cells, t = np.append(rate * law, 1 - rate), 3.3
    share = channel @ cells
    error = PrequentialError()
    f = square - 2 * t * value + t * t * weight
    error.add_errors(np.full(6, nan), share * f, share * weight)
    assert error.rmse_debiased("all") == pytest.approx(sqrt(law @ (STARS - t) ** 2))


def test_the_log_loss_is_the_mean_surprise_of_two_predictors() -> None:
    loss = LogLoss(recent=2)
    assert isnan(loss.nats("model"))
    loss.add(np.array([1.0, 0.5, 0.25]), np.array([0.5, 0.5, 0.5]))
    assert loss.nats("model", "all") == pytest.approx(np.log(2))
    assert loss.nats("model") == pytest.approx(1.5 * np.log(2))
    assert loss.nats("blank") == loss.nats("blank", "all") == pytest.approx(np.log(2))
    loss.add(np.zeros(1), np.ones(1))
    assert np.isfinite(loss.nats("model"))


def test_recent_forgets_and_all_does_not() -> None:
    error = PrequentialError(recent=10)
    bad, good = np.full(10, 5.0), np.full(10, 3.0)
    error.add(bad, good, good, good**2)
    error.add(good, good, good, good**2)
    assert error.rmse_reported("recent") == 0
    assert error.rmse_reported("all") == pytest.approx(sqrt(2))

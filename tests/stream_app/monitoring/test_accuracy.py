"""The gauges' arithmetic against its obvious version and against channels written out by hand."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isnan, nan, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from stream_app.monitoring.accuracy import (
    FEWEST_SAMPLES,
    GeneralizationGap,
    ItemMeanBaseline,
    LogLoss,
    PrequentialError,
    RingBuffer,
    gaussian_kl,
)

STARS = np.arange(1.0, 6.0)


def randomized_response(epsilon: float) -> NDArray[np.float64]:
    """Return P(report | level) over five levels, columns sum to 1."""
    channel = np.full((5, 5), 1.0)
    np.fill_diagonal(channel, np.exp(epsilon))
    return channel / channel.sum(axis=0)


def unbiased(channel: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return g and h per report with E[g | r] = r and E[h | r] = r^2."""
    inverse = np.linalg.inv(channel.T)
    return inverse @ STARS, inverse @ STARS**2


# --- rings ------------------------------------------------------------------------------------


@given(
    capacity=st.integers(1, 7),
    batches=st.lists(st.lists(st.integers(0, 99), max_size=20), max_size=8),
)
def test_a_ring_holds_the_newest_values_whatever_the_batches(
    capacity: int, batches: list[list[int]]
) -> None:
    ring = RingBuffer(capacity, np.int64)
    for batch in batches:
        ring.add(np.array(batch, np.int64))
    newest = [value for batch in batches for value in batch][-capacity:]
    assert sorted(ring.values().tolist()) == sorted(newest)
    assert len(ring) == len(newest)


def test_a_ring_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="capacity 0"):
        RingBuffer(0, np.float64)


# --- drift ------------------------------------------------------------------------------------


def test_before_the_first_event_nothing_is_known() -> None:
    drift = PrequentialError()
    assert isnan(drift.rmse_reported("all"))
    assert isnan(drift.rmse_reported("recent"))
    assert isnan(drift.rmse_debiased("all"))
    assert isnan(drift.rmse_debiased("recent"))


def test_reported_and_debiased_agree_where_the_channel_is_noiseless() -> None:
    drift = PrequentialError()
    stars = np.array([1.0, 5.0, 3.0])
    drift.add([2.0, 4.5, 3.0], stars, stars, stars**2)
    assert drift.rmse_reported() == pytest.approx(sqrt((1 + 0.25 + 0) / 3))
    assert drift.rmse_debiased() == pytest.approx(drift.rmse_reported())


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
            drift = PrequentialError()
            drift.add(
                [predicted] * 2, [STARS[report]] * 2, [value[report]] * 2, [square[report]] * 2
            )
            f = drift._sums[1, 0] / 2
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
    drift = PrequentialError(recent=200_000)
    drift.add(predicted, STARS[reports], value[reports], square[reports])
    assert drift.rmse_debiased("all") == pytest.approx(0.9, abs=0.05)
    assert drift.rmse_debiased("recent") == pytest.approx(drift.rmse_debiased("all"))
    assert drift.rmse_reported("all") > 1.55


def test_a_negative_debiased_mean_is_no_number() -> None:
    drift = PrequentialError()
    drift.add([3.0], [3.0], [3.0], [5.0])
    assert isnan(drift.rmse_debiased())
    assert drift.rmse_reported() == 0


def test_an_event_whose_channel_has_no_inverse_counts_as_reported_only() -> None:
    drift, baseline = PrequentialError(), ItemMeanBaseline()
    stars, values = np.array([3.0, 5.0]), np.array([3.0, nan])
    drift.add([3.0, 4.0], stars, values, values**2)
    assert drift.rmse_reported("all") == pytest.approx(sqrt(0.5))
    assert drift.rmse_debiased("all") == drift.rmse_debiased("recent") == 0
    baseline.add(np.array([0, 1]), stars, values, values**2)
    assert baseline.predict(np.array([0, 1])) == pytest.approx([3.0, 3.0])
    drift = PrequentialError()
    drift.add([4.0], [5.0], [nan], [nan])
    assert isnan(drift.rmse_debiased("all"))
    assert isnan(drift.rmse_debiased("recent"))


def test_a_report_that_says_nothing_counts_as_debiased_only() -> None:
    """Its error is a share of all cells' error; without it, fakes would count as ratings."""
    drift = PrequentialError()
    drift.add_errors(np.array([1.0, nan]), np.array([6.0, -2.0]), np.array([2.5, -0.5]))
    assert drift.rmse_reported("all") == drift.rmse_reported() == 1
    assert drift.rmse_debiased("all") == drift.rmse_debiased() == pytest.approx(sqrt(4 / 2))
    drift.add_errors(np.array([9.0]), np.array([nan]), np.array([7.0]))
    assert drift.rmse_debiased("all") == drift.rmse_debiased() == pytest.approx(sqrt(4 / 2))
    drift.add_errors(np.array([nan]), np.array([-1.0]), np.array([-3.0]))
    assert isnan(drift.rmse_debiased("all"))


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
    chance = channel @ cells
    drift = PrequentialError()
    f = square - 2 * t * value + t * t * weight
    drift.add_errors(np.full(6, nan), chance * f, chance * weight)
    assert drift.rmse_debiased("all") == pytest.approx(sqrt(law @ (STARS - t) ** 2))


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
    drift = PrequentialError(recent=10)
    bad, good = np.full(10, 5.0), np.full(10, 3.0)
    drift.add(bad, good, good, good**2)
    drift.add(good, good, good, good**2)
    assert drift.rmse_reported("recent") == 0
    assert drift.rmse_reported("all") == pytest.approx(sqrt(2))


# --- the baseline -----------------------------------------------------------------------------


def slow_baseline(batches: list[tuple[list[int], list[float]]], spread: float) -> list[float]:
    """Predict batch by batch with dictionaries."""
    sums: dict[int, float] = {}
    counts: dict[int, int] = {}
    seen: list[float] = []
    predictions: list[float] = []
    for rows, values in batches:
        mean = float(np.mean(seen)) if seen else 3.0
        pseudo = max(float(np.mean(np.square(seen))) - mean**2, 1e-9) / spread**2 if seen else 1.0
        for row in rows:
            estimate = (sums.get(row, 0.0) + pseudo * mean) / (counts.get(row, 0) + pseudo)
            predictions.append(min(max(estimate, 1.0), 5.0))
        for row, value in zip(rows, values, strict=True):
            sums[row] = sums.get(row, 0.0) + value
            counts[row] = counts.get(row, 0) + 1
        seen.extend(values)
    return predictions


_events = st.lists(st.tuples(st.integers(0, 30), st.integers(-3, 9)), max_size=12)


@given(st.lists(_events, max_size=6))
def test_the_vectorised_baseline_is_the_obvious_one(batches: list[list[tuple[int, int]]]) -> None:
    baseline = ItemMeanBaseline()
    split = [([r for r, _ in batch], [float(v) for _, v in batch]) for batch in batches]
    predictions: list[float] = []
    for rows, values in split:
        at, v = np.array(rows, np.int64), np.array(values)
        predictions.extend(baseline.predict(at))
        baseline.add(at, v, v, v * v)
    assert predictions == pytest.approx(slow_baseline(split, baseline.spread))


def test_the_baseline_predicts_before_it_learns() -> None:
    baseline = ItemMeanBaseline()
    stars = np.array([5.0])
    baseline.add(np.array([0]), stars, stars, stars**2)
    assert baseline.error.rmse_reported() == 2  # the middle of the scale, not the rating itself


@pytest.mark.statistical
def test_the_baseline_finds_the_items_means_through_noise() -> None:
    """60,000 reports at epsilon 2 on 40 items, seed 11; the items' own spread alone is .433.

    Over 20 seeds the RMSE is .42, deviation .04, and the gap between the two kinds of item 2.76,
    deviation .04: both margins exceed nine deviations. Guessing the overall mean scores 1.56.
    """
    source = np.random.default_rng(11)
    value, square = unbiased(randomized_response(2.0))
    channel = np.cumsum(randomized_response(2.0), axis=0).T
    rows = source.integers(0, 40, 60_000)
    levels = np.where(rows % 2, 4, 1) - (source.random(len(rows)) < 0.25)
    reports = (source.random(len(rows))[:, None] > channel[levels]).sum(axis=1).clip(0, 4)
    baseline = ItemMeanBaseline(recent=40_000)
    for some in np.array_split(np.arange(len(rows)), 60):
        z = reports[some]
        baseline.add(rows[some], STARS[z], value[z], square[z])
    assert baseline.error.rmse_debiased() < 0.8
    means = baseline.predict(np.arange(40))
    assert means[1::2].min() > means[::2].max() + 2.3


def test_the_mean_of_an_item_leaves_its_fakes_out() -> None:
    """Item 0 has two ratings of 5 among four cells; what the empty ones report cancels."""
    baseline = ItemMeanBaseline(spread=100)
    values, weights = np.array([12.0, 8.0, -6.0, -4.0, 3.0]), np.array([2.0, 2.0, -1.0, -1.0, 1.0])
    baseline.learn(np.array([0, 0, 0, 0, 1]), values, weights)
    assert baseline.predict(np.array([0, 1])) == pytest.approx([5.0, 3.0], abs=0.01)


def test_an_item_with_more_fakes_than_ratings_stays_near_the_mean_of_all() -> None:
    """Its sum of weights is below 0: it counts as no rating, and what its reports say a little."""
    baseline = ItemMeanBaseline(spread=2)
    rows = np.array([0, 1])
    baseline.learn(rows, np.array([-5.0, 30.0]), np.array([-2.0, 10.0]))
    mean = 25 / 8
    pseudo = ((-5 + 2 * mean) ** 2 + (30 - 10 * mean) ** 2) / 8 / 4
    wanted = [mean + (-5 + 2 * mean) / pseudo, (30 + pseudo * mean) / (10 + pseudo)]
    assert baseline.predict(rows) == pytest.approx(np.clip(wanted, 1, 5))


@pytest.mark.parametrize(("low", "high", "spread"), [(5, 1, 1), (1, 5, 0), (1, 5, nan)])
def test_an_impossible_scale_is_refused(low: float, high: float, spread: float) -> None:
    with pytest.raises(ValueError, match="low < high"):
        ItemMeanBaseline(low, high, spread)


# --- leakage ----------------------------------------------------------------------------------


def slow_pairs(held_out: list[bool]) -> tuple[list[int], list[int]]:
    """Return the numbers of held-out events and of the learned events paired with them."""
    out, learned, owed = [], [], 0
    for number, is_held_out in enumerate(held_out):
        if is_held_out:
            out.append(number)
            owed += 1
        elif owed:
            learned.append(number)
            owed -= 1
    return out, learned


def remember(leakage: GeneralizationGap, held_out: list[bool], start: int = 0) -> None:
    numbers = np.arange(start, start + len(held_out), dtype=np.uint64)
    small = (numbers % np.uint64(5)).astype(np.uint8)
    channels, priors = small.astype(np.uint16), np.ones(len(small), np.float32)
    leakage.add(numbers, numbers, small, channels, priors, np.array(held_out, bool))


def kept(leakage: GeneralizationGap) -> tuple[list[int], list[int]]:
    """Return the users on each side, (held-out, learned)."""
    return (
        sorted(int(u) for u in leakage._held_out[0].values()),
        sorted(int(u) for u in leakage._learned[0].values()),
    )


@given(
    batches=st.lists(st.lists(st.booleans(), max_size=15), max_size=6), capacity=st.integers(1, 20)
)
def test_both_sides_hold_pairs_of_equal_age_whatever_the_batches(
    batches: list[list[bool]], capacity: int
) -> None:
    leakage, start = GeneralizationGap(capacity), 0
    for batch in batches:
        remember(leakage, batch, start)
        start += len(batch)
    out, learned = slow_pairs([flag for batch in batches for flag in batch])
    assert kept(leakage) == (out[-capacity:], learned[-capacity:])


def residuals_of(
    learned: Callable[[int], NDArray[np.float64]], held_out: Callable[[int], NDArray[np.float64]]
) -> Callable[..., NDArray[np.float64]]:
    """Answer for the learned side when asked about odd users, for the held-out side when even."""

    def answer(users: NDArray[np.uint64], *_: NDArray[np.generic]) -> NDArray[np.float64]:
        return (learned if users[0] % 2 else held_out)(len(users))

    return answer


def paired(pairs: int) -> GeneralizationGap:
    """Return a memory whose held-out users are even and whose learned ones are odd."""
    leakage = GeneralizationGap()
    remember(leakage, [True, False] * pairs)
    return leakage


def spread_out(mean: float, deviation: float) -> Callable[[int], NDArray[np.float64]]:
    """Return n numbers with exactly this mean and deviation, for even n."""
    return lambda n: mean + deviation * np.where(np.arange(n) % 2, 1.0, -1.0)


def test_kl_is_the_known_value_of_two_gaussians() -> None:
    assert gaussian_kl(0.05, 0.8, 0.0, 0.9) == pytest.approx(0.01438797, abs=5e-9)
    measured = paired(100).measure(residuals_of(spread_out(0.05, 0.8), spread_out(0.0, 0.9)))
    assert measured == pytest.approx(0.01438797, abs=5e-9)


def test_kl_is_zero_for_equal_residuals_and_has_a_direction() -> None:
    assert gaussian_kl(0.1, 0.9, 0.1, 0.9) == 0
    assert gaussian_kl(0.0, 0.5, 0.0, 0.9) != pytest.approx(gaussian_kl(0.0, 0.9, 0.0, 0.5))


def test_below_thirty_samples_the_leakage_is_unknown() -> None:
    alike = residuals_of(spread_out(0, 1), spread_out(0, 1))
    assert isnan(paired(FEWEST_SAMPLES - 1).measure(alike))
    assert paired(FEWEST_SAMPLES).measure(alike) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("odd_one", [0.1, nan, inf])
@pytest.mark.parametrize("side", ["learned", "held out"])
def test_residuals_without_a_finite_width_give_no_number(odd_one: float, side: str) -> None:
    def flat(n: int) -> NDArray[np.float64]:
        return np.array([odd_one, *[0.1] * (n - 1)])

    wide = spread_out(0, 1)
    answer = residuals_of(flat, wide) if side == "learned" else residuals_of(wide, flat)
    assert isnan(paired(50).measure(answer))


@pytest.mark.statistical
def test_a_model_that_leaks_nothing_shows_about_two_nats_over_the_number_of_samples() -> None:
    """400 measurements on n = 500 pairs, seed 3: n KL / 2 has mean 1 and deviation 1 (chi^2 / 2).

    The mean of 400 lies within .3 of 1 but for a chance of 2e-9.
    """
    source = np.random.default_rng(3)

    def normal(n: int) -> NDArray[np.float64]:
        return source.normal(0, 0.9, n)

    leakage = paired(500)
    measured = [leakage.measure(residuals_of(normal, normal)) for _ in range(400)]
    assert np.mean(measured) * 500 / 2 == pytest.approx(1, abs=0.3)

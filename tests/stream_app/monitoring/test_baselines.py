"""The item means: equal to the obvious version, and found through noise and fakes."""

from __future__ import annotations

from math import nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_app.monitoring.live_baselines import ItemMeanBaseline
from tests.stream_app.monitoring.channels import STARS, randomized_response, unbiased


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
        indices, v = np.array(rows, np.int64), np.array(values)
        predictions.extend(baseline.predict(indices))
        baseline.add(indices, v, v, v * v)
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
    """Its sum of weights is below 0: it counts as no rating, and its reports count a little."""
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

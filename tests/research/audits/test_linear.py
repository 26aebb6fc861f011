"""The linear adversary: its algebra on exact scores, and its success in closed form."""

from __future__ import annotations

import math

import numpy as np
import pytest

from research.audits import linear
from research.similarity import cosine, slope_one
from research.similarity.table import from_ratings

KEYS = np.arange(12, dtype=np.uint64)


def table_of(seed: int = 2):
    generator = np.random.default_rng(seed)
    cells = np.argwhere(generator.random((60, 12)) < 0.6)
    stars = generator.integers(1, 6, len(cells)).astype(float)
    return from_ratings(cells[:, 0] + 1, cells[:, 1], stars, KEYS)


def test_without_noise_every_score_gives_the_rating_away() -> None:
    table, slots = table_of(), np.arange(7)
    stars = np.array([5.0, 1, 3, 2, 4, 4, 1])
    deviations = slope_one.deviations(table, least=3)
    targets = np.arange(7, 12)
    published = slope_one.predict(deviations, slots, stars)[targets]
    rows = deviations[np.ix_(targets, slots)].T
    for attacked in range(7):
        hidden = stars.copy()
        hidden[attacked] = math.nan  # must not be read
        estimates = linear.slope_one_estimates(published, rows, hidden, attacked)
        assert linear.plain(estimates).tolist() == [stars[attacked]] * 5
        assert linear.clamped(estimates).tolist() == [stars[attacked]] * 5


def test_without_noise_every_score_shows_what_was_bought() -> None:
    table, slots = table_of(), np.arange(7)
    similar = cosine.similarities(table)
    targets = np.arange(7, 12)
    rows = similar[np.ix_(slots, targets)]
    bought = rows.sum(axis=0) / 7
    assert linear.cosine_guesses(bought, rows, 3).all()
    without = np.delete(rows, 3, axis=0).sum(axis=0) / 7
    assert not linear.cosine_guesses(without, rows, 3).any()


@pytest.mark.parametrize("epsilon", [0.01, 3.0, 40.0])
def test_cosine_guesses_succeed_as_often_as_the_closed_form_says(epsilon: float) -> None:
    """20,000 scores with noise as printed, half of them of a user who bought; 5 standard errors."""
    rows = np.full((20, 20_000), 0.3)
    rows[4] = 0.5
    noise = np.random.default_rng(9).laplace(0, 0.1 / epsilon, 20_000)
    bought = np.arange(20_000) % 2 == 0
    published = (rows.sum(axis=0) - np.where(bought, 0, 0.5)) / 20 + noise
    right = (linear.cosine_guesses(published, rows, 4) == bought).mean()
    wanted = linear.cosine_success(epsilon, 20, 0.1, 0.5)
    assert right == pytest.approx(wanted, abs=5 * 0.5 / 20_000**0.5)


@pytest.mark.parametrize(
    ("epsilon", "profile", "plain", "clamped", "averaged"),
    [
        (1, 20, 0.049, 0.239, 0.129),
        (10, 20, 0.394, 0.515, 0.888),
        (10, 106, 0.090, 0.272, 0.238),
        (100, 106, 0.611, 0.689, 0.996),
    ],
)
def test_success_in_closed_form(epsilon, profile, plain, clamped, averaged) -> None:
    found = linear.success(epsilon, profile, 0.5, scores=20)
    assert found.plain == pytest.approx(plain, abs=6e-4)
    assert found.clamped == pytest.approx(clamped, abs=6e-4)
    assert found.averaged == pytest.approx(averaged, abs=2e-3)
    assert found.averaged_clamped == pytest.approx(0.2 + 0.8 * found.averaged)


@pytest.mark.parametrize("count", [1, 2, 5, 20, 300])
def test_the_mixture_of_gammas_is_the_sum_of_laplace_variables(count: int) -> None:
    """200,000 draws; 5 standard errors."""
    sums = np.zeros(200_000)
    generator = np.random.default_rng(count)
    for _ in range(count):
        sums += generator.laplace(size=len(sums))
    for reach in (0.1 * count**0.5, count**0.5, 3 * count**0.5):
        share = (np.abs(sums) < reach).mean()
        assert linear.within(reach, count) == pytest.approx(share, abs=5 * 0.5 / 200_000**0.5)
    assert linear.within(1000.0 * count, count) == pytest.approx(1)


def test_success_falls_to_chance_clamped_and_below_it_plain() -> None:
    found = linear.success(1e-6, 20, 0.5, scores=20)
    assert found.plain < 1e-6 < linear.CHANCE
    assert found.clamped == pytest.approx(linear.CHANCE, abs=1e-5)
    assert linear.allowed(1e-9) == pytest.approx(linear.CHANCE)
    assert linear.allowed(50) == pytest.approx(1)


def test_estimates_far_off_the_scale_are_guesses_at_its_ends() -> None:
    found = linear.clamped(np.array([-1e30, 1e30, 2.4, math.inf, -math.inf]))
    assert found.tolist() == [1, 5, 2, 5, 1]


@pytest.mark.parametrize("epsilon", [0, -1, math.inf, math.nan])
def test_an_epsilon_that_is_none_is_refused(epsilon: float) -> None:
    with pytest.raises(ValueError, match="epsilon"):
        linear.success(epsilon, 20, 0.5)
    with pytest.raises(ValueError, match="0 ratings"):
        linear.success(1, 0, 0.5)

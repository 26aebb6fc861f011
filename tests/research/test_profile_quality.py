"""The evaluation of profiles: on synthetic tastes with a known answer."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from research.profile_quality import evaluate_profiles, profiles_of
from stream_app.privacy.profiles.blip import Blip
from stream_app.privacy.profiles.jlt import Jlt


@pytest.fixture(scope="module")
def ratings() -> tuple[np.ndarray, np.ndarray]:
    """120 users of three tastes, 20 of a taste's 60 items each, keys that are not in order."""
    rng = np.random.default_rng(5)
    users, items = [], []
    for user in range(120):
        users += [user * 7919 % 1000] * 20
        items += (rng.choice(60, 20, replace=False) + 60 * (user % 3) + 10**12).tolist()
    order = rng.permutation(len(users))
    return np.array(users, np.uint64)[order], np.array(items, np.uint64)[order]


def test_without_noise_neighbours_are_found_and_beat_popular_items(
    ratings: tuple[np.ndarray, np.ndarray],
) -> None:
    result = evaluate_profiles(*ratings, Blip(5000, 10, None), neighbours=20)
    assert (result.users, result.items, result.mean_size) == (120, 180, 20)
    assert (result.epsilon, result.delta, result.profile_bytes) == (None, 0, 625)
    assert result.recall > 0.7
    assert result.chance == pytest.approx(10 / 119)
    assert result.precision == pytest.approx(result.precision_clear, abs=0.03)
    assert result.precision > 1.5 * result.precision_popular


def test_strong_noise_hides_the_neighbours(ratings: tuple[np.ndarray, np.ndarray]) -> None:
    found = [
        evaluate_profiles(*ratings, Blip(1000, 10, Fraction(epsilon))).recall
        for epsilon in (40, 12, 1)
    ]
    assert found[0] > found[1] + 0.05 > found[2] + 0.1
    assert found[2] < 0.15


def test_the_same_seed_gives_the_same_result_and_reports_its_progress(
    ratings: tuple[np.ndarray, np.ndarray],
) -> None:
    done: list[int] = []
    mechanism = Jlt(200, Fraction(8), Fraction(1, 10**6))
    first, second = (
        evaluate_profiles(*ratings, mechanism, seed=3, queries=40, progress=done.append)
        for _ in range(2)
    )
    assert (first.recall, first.precision) == (second.recall, second.precision)
    assert first.delta == 1e-6
    assert sum(done) == 8


def test_a_cell_that_is_rated_twice_is_one_item_of_a_profile() -> None:
    users = np.array([5, 3, 5, 5, 3], np.uint64)
    items = np.array([9, 9, 2, 9, 2**63], np.uint64)
    profiles, catalogue = profiles_of(users, items)
    assert [profile.tolist() for profile in profiles] == [[9, 2**63], [2, 9]]
    assert catalogue.tolist() == [2, 9, 2**63]


def test_an_input_that_cannot_be_evaluated_is_refused_in_one_sentence(
    ratings: tuple[np.ndarray, np.ndarray],
) -> None:
    users, items = ratings
    mechanism = Blip(64, 2, Fraction(1))
    with pytest.raises(ValueError, match="a rating has one of each"):
        evaluate_profiles(users, items[1:], mechanism)
    with pytest.raises(ValueError, match="at least 12"):
        evaluate_profiles(users[:3], items[:3], mechanism)
    with pytest.raises(ValueError, match="uniform at epsilon 0"):
        evaluate_profiles(users, items, Blip(64, 2, Fraction(0)))

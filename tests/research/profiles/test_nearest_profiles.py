"""Neighbours over released profiles: against the obvious version, and on tastes that are known."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from research.profiles.blip import Blip
from research.profiles.jlt import JltPaper
from research.profiles.nearest_profiles import nearest, posterior, profiles_of, recall
from research.profiles.profile_mechanism import ProfileMechanism
from stream_app.privacy.randomness import SeededSource

CATALOGUE = np.arange(300, dtype=np.uint64)
CLEAR = Blip(4000, 10, None)
EVERY = (
    CLEAR,
    Blip(2000, 4, Fraction(8)),
    JltPaper(500, Fraction(16), Fraction(1, 10)),
    JltPaper(500, None, Fraction(0)),
)
every = pytest.mark.parametrize("mechanism", EVERY, ids=lambda mechanism: mechanism.id)


def two_tastes(users: int) -> list[np.ndarray]:
    """Profiles of 40 items each: every second user's from the first half of the catalogue."""
    rng = np.random.default_rng(users)
    return [
        np.sort(rng.choice(CATALOGUE[:150] if user % 2 else CATALOGUE[150:], 40, replace=False))
        for user in range(users)
    ]


def released(mechanism: ProfileMechanism, profiles: list[np.ndarray]) -> np.ndarray:
    source = SeededSource(1)
    return np.stack([mechanism.release(items, source) for items in profiles])


@every
def test_the_nearest_are_those_of_the_obvious_version(mechanism: ProfileMechanism) -> None:
    found = released(mechanism, two_tastes(30))
    sizes = posterior(mechanism, found, len(CATALOGUE))
    similarity = np.full((30, 30), -np.inf)
    for a in range(30):
        for b in set(range(30)) - {a}:
            both = mechanism.overlaps(found[a : a + 1], found[b : b + 1])[0, 0]
            similarity[a, b] = both / math.sqrt(sizes[a] * sizes[b])
    near = nearest(mechanism, found, np.arange(30), len(CATALOGUE))
    of_near = np.take_along_axis(similarity, near, axis=1)
    np.testing.assert_allclose(of_near, np.sort(similarity, axis=1)[:, :-11:-1], rtol=1e-4)
    assert (near % 2 == np.arange(30)[:, None] % 2).mean() > 0.6


def test_equal_similarities_go_by_their_number() -> None:
    found = released(CLEAR, [CATALOGUE[:40]] * 11)
    near = nearest(CLEAR, found, np.array([2]), len(CATALOGUE))
    assert near.tolist() == [[0, 1, *range(3, 11)]]


def test_sizes_are_drawn_to_their_mean_by_as_much_as_they_are_noise() -> None:
    """Of 200 equal profiles every difference is noise: its deviation, about 36, falls below a
    third. Power: sizes that are not drawn keep all of it."""
    mechanism = Blip(2000, 20, Fraction(2))
    found = released(mechanism, [CATALOGUE[:40]] * 200)
    raw = mechanism.sizes(mechanism.coordinates(found), len(CATALOGUE))
    assert posterior(mechanism, found, len(CATALOGUE)).std() < raw.std() / 3


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


def test_noise_hides_the_neighbours(ratings: tuple[np.ndarray, np.ndarray]) -> None:
    assert recall(*ratings, Blip(5000, 10, None)) > 0.7
    found = [recall(*ratings, Blip(1000, 10, Fraction(epsilon))) for epsilon in (40, 12, 1)]
    assert found[0] > found[1] + 0.05 > found[2] + 0.1
    assert found[2] < 0.15
    once, again = (recall(*ratings, EVERY[2], seed=3, queries=40) for _ in range(2))
    assert once == again


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
        recall(users, items[1:], mechanism)
    with pytest.raises(ValueError, match="at least 12"):
        recall(users[:3], items[:3], mechanism)
    with pytest.raises(ValueError, match="uniform at epsilon 0"):
        recall(users, items, Blip(64, 2, Fraction(0)))

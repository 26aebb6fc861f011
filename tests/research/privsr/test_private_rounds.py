"""The corrected rounds: what one rating can move, in integers; budgets; the secure sum; the use."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research.privsr import (
    Budget,
    PrivateRounds,
    Rounds,
    SecureSum,
    SocialParameters,
    SocialRatings,
    social_factorization,
)
from research.privsr.private_rounds import to_units
from stream_app.privacy.randomness import SeededSource

F = Fraction
BUDGET = Budget(F(2), F(1))


def rounds(block: int = 12, **more) -> PrivateRounds:
    made = PrivateRounds(block, BUDGET, Rounds(least=4, factors=2, **more), SeededSource(1))
    random = np.random.default_rng(2)
    made.biases[:] = random.normal(0, 0.5, block)
    made.vectors[:] = random.normal(0, 1, made.vectors.shape)
    return made


@settings(deadline=None, max_examples=80)
@given(
    stars=st.lists(st.floats(1, 5), min_size=1, max_size=12),
    flags=st.lists(st.booleans(), min_size=12, max_size=12),
    place=st.integers(0, 11),
    vectors=st.sampled_from([0.0, 0.1, 2.0]),
)
def test_a_rating_moves_a_contribution_by_its_own_bound(stars, flags, place, vectors):
    """Removed: any rating by at most the reach, a sensitive one by its smaller clip."""
    made = rounds(vectors=vectors)
    items, given_ = np.arange(len(stars)), np.array(stars)
    sensitive = np.array(flags[: len(stars)])
    place %= len(stars)
    rest = np.delete(items, place)
    whole = made.contribution(items, given_, sensitive)
    less = made.contribution(rest, given_[rest], sensitive[rest])
    moved = sum(int(x) ** 2 for x in whole - less)
    assert moved <= (made.strict if sensitive[place] else made.reach) ** 2


def test_a_sensitive_rating_moves_nothing_but_its_own_entry():
    made = rounds()
    items, stars = np.arange(5), np.array([1.0, 5, 2, 4, 3])
    sensitive = np.array([True, False, False, True, False])
    other = np.where(items == 3, 1.0, stars)
    moved = made.contribution(items, stars, sensitive) - made.contribution(items, other, sensitive)
    places = np.flatnonzero(moved) % made.block
    assert set(places.tolist()) == {3}
    assert set((np.flatnonzero(moved) // made.block).tolist()) <= {0, 1}


def test_each_class_gets_its_own_budget():
    made = PrivateRounds(50, BUDGET, Rounds(least=20), SeededSource(1))
    loose, strict = made.epsilons
    assert 1.999 < loose <= 2
    assert 0.99 < strict <= 1
    assert made.strict < made.reach


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=8), st.integers(1, 5000))
def test_units_are_within_the_bound_exactly(vector, bound):
    units = to_units(np.array(vector), bound)
    assert sum(int(x) ** 2 for x in units) <= bound**2


def test_a_secure_sum_of_too_few_is_aborted_and_masks_cancel():
    total = SecureSum(3, 2)
    mask = np.array([2**62, -(2**62), 5], np.int64)
    total.add(np.array([1, 2, 3]) + mask)
    with pytest.raises(ValueError, match="1 contributors: 2 are needed"):
        total.close()
    total.add(np.array([10, 20, 30]) - mask)
    assert total.close().tolist() == [11, 22, 33]


def test_the_noise_is_the_operating_systems_unless_a_source_is_given():
    found = []
    for source in (None, None, SeededSource(3), SeededSource(3)):
        made = PrivateRounds(20, BUDGET, Rounds(least=4), source)
        made.learn(world(people=8, catalogue=20))
        found.append(made.biases)
    assert (found[0] != found[1]).any()
    assert (found[2] == found[3]).all()


def world(people: int = 400, catalogue: int = 20, seed: int = 4) -> SocialRatings:
    """Items of three levels, friends of one taste: u_i = +-1 by the half of the people."""
    random = np.random.default_rng(seed)
    users, items = (x.ravel() for x in np.meshgrid(np.arange(people), np.arange(catalogue)))
    kept = random.random(len(users)) < 0.6
    users, items = users[kept], items[kept]
    stars = 2.0 + items % 3 + random.integers(0, 2, len(users))
    trusting = np.arange(people)
    return SocialRatings(
        *(users, items, stars, random.random(len(users)) < 0.3),
        *(trusting, (trusting + 2) % people, people, catalogue),
    )


def test_the_corrected_rounds_learn_the_items():
    data = world()
    rows = np.random.default_rng(5).permutation(len(data.stars))
    train, test = data.part(rows[500:]), data.part(rows[:500])
    made = PrivateRounds(data.catalogue, Budget(F(4), F(2)), Rounds(least=200), SeededSource(1))
    made.learn(train)
    error = np.sqrt(np.mean((made.predict(train, test) - test.stars) ** 2))
    assert error < 0.75 * test.stars.std()


def test_items_solve_for_the_users_of_the_step_before():
    data = world(people=30)
    before, after = (
        social_factorization(data, SocialParameters(factors=3, steps=steps)) for steps in (3, 4)
    )
    residual = (before.users[data.users] * after.items[data.items]).sum(1)
    residual -= data.stars - after.middle
    gradient = after.items.copy()
    np.add.at(gradient, data.items, residual[:, None] * before.users[data.users])
    assert np.abs(gradient).max() < 1e-9
    assert np.linalg.norm(after.users, axis=1).max() <= 1 + 1e-12


def test_friends_pull():
    data = world(people=30)
    far, near = (
        social_factorization(data, SocialParameters(factors=3, alpha=alpha)).users
        for alpha in (0.0, 5.0)
    )
    apart = (
        np.linalg.norm(users[data.trusting] - users[data.trusted], axis=1).mean()
        for users in (far, near)
    )
    assert next(apart) > 1.25 * next(apart)


def test_a_sensitive_rating_may_not_have_the_larger_budget():
    with pytest.raises(ValueError, match="epsilon 3 of sensitive ratings: above 0, at most 2"):
        Budget(F(2), F(3))


def test_the_price_of_personal_budgets_is_in_the_clip():
    made = PrivateRounds(50, Budget(F(2), F(2)), Rounds(least=20), SeededSource(1))
    assert made.strict == pytest.approx(made.reach, abs=1)
    assert made.reach >= 4096 * math.hypot(1.5, 0.2)

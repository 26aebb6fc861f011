"""Figures 9 to 11 on small profiles with a known taste."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from research.attacks.attacks import ATTACKS
from research.attacks.decoder import Chains
from research.attacks.trials import Plan, Trial
from research.papers.balu_2016_profiles import (
    f9,
    f10,
    f11,
    mechanisms,
    reconstructions,
)

pytestmark = pytest.mark.nightly

PLAN = Plan(
    tuple(each for each in ATTACKS if each != "slots paper"),
    Chains(burn_steps=50, steps=400, burn_sweeps=5, sweeps=20),
)


class Rated(NamedTuple):
    users: np.ndarray
    items: np.ndarray


@pytest.fixture(scope="module")
def ratings() -> Rated:
    rng = np.random.default_rng(2)
    shares = 0.5 / (1 + np.arange(200) / 20)
    cells = [(u, i) for u in range(60) for i in np.flatnonzero(rng.random(200) < shares).tolist()]
    users, items = np.array(cells, np.uint64).T
    return Rated(users, items)


@pytest.fixture(scope="module")
def trials(ratings: Rated) -> list[Trial]:
    done: list[tuple[int, int]] = []
    made = mechanisms((2, 8, 59), (1, 24))
    found = reconstructions(
        ratings, made=made, people=3, plan=PLAN, progress=lambda *at: done.append(at)
    )
    assert done == [(n, 5) for n in range(1, 6)]
    assert [each.attack for each in found] == [*PLAN.attacks] * 5
    assert {each.profiles for each in found} == {3}
    return found


def test_reconstructions_rise_with_epsilon_between_their_quantiles(
    ratings: Rated, trials: list[Trial]
) -> None:
    figure = f9(ratings, trials=trials)
    assert figure.id == "F9"
    assert len(figure.series) == 2 * 3 * len(PLAN.attacks)
    for family, last in (("BLIP", 59), ("JLT", 24)):
        mean, low, high = (
            figure.named(f"{family} bits prior{suffix}") for suffix in ("", ", 10 %", ", 90 %")
        )
        assert mean.x == low.x == high.x
        assert mean.x[-1] == last
        assert mean.y[-1] > mean.y[0] + 0.2
        assert all(a <= b for a, b in zip(low.y, high.y, strict=True))
    assert figure.named("BLIP bits prior").y[-1] > 0.95
    assert len(figure.published) == 4
    assert figure.notes


def test_the_first_ten_items_are_easier_than_the_whole(ratings: Rated, trials: list[Trial]) -> None:
    figure = f10(ratings, trials=trials)
    cosine = f9(ratings, trials=trials).named("BLIP bits prior")
    assert figure.named("BLIP bits prior").y[-1] > 0.95
    assert all(
        first >= whole
        for first, whole in zip(figure.named("BLIP bits prior").y, cosine.y, strict=True)
    )


def test_privacy_is_paid_in_neighbours(ratings: Rated, trials: list[Trial]) -> None:
    figure = f11(ratings, trials=trials)
    for family in ("BLIP", "JLT"):
        curve = figure.named(family)
        assert list(curve.x) == sorted(curve.x)
        assert curve.y[0] > curve.y[-1]


def test_too_few_users_are_refused(ratings: Rated) -> None:
    two = Rated(ratings.users[ratings.users < 2], ratings.items[ratings.users < 2])
    for data, people in ((two, 1), (ratings, 0)):
        with pytest.raises(ValueError, match="attack one at least"):
            reconstructions(data, people=people, made=[])

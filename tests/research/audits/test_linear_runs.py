"""The linear adversary against each mechanism, on a small population."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from research.audits import linear
from research.audits.linear_runs import PRINTED, Attacked, Profile, attack_all
from research.similarity.table import CoRatingTable, from_ratings

pytestmark = pytest.mark.thorough

ITEMS = 60


@pytest.fixture(scope="module")
def world() -> tuple[CoRatingTable, list[Profile]]:
    generator = np.random.default_rng(6)
    cells = np.argwhere(generator.random((400, ITEMS)) < 0.4)
    stars = generator.integers(1, 6, len(cells)).astype(float)
    table = from_ratings(cells[:, 0], cells[:, 1], stars, np.arange(ITEMS, dtype=np.uint64))
    profiles = [
        Profile(cells[cells[:, 0] == user, 1], stars[cells[:, 0] == user]) for user in range(400)
    ]
    return table, profiles


def by_name(found: tuple[Attacked, ...]) -> dict[str, Attacked]:
    return {each.mechanism.split(" (")[0]: each for each in found}


def test_almost_no_noise_gives_every_rating_away(world) -> None:
    found = by_name(attack_all(*world, Fraction(400), published=10))
    for name, least in (("paper", 0.95), ("noise once", 0.75)):
        assert found[name].best > least
        assert found[name].averaged > least
    assert found["paper"].clamped > 0.9


def test_much_noise_leaves_chance_and_less_of_the_plain_guess(world) -> None:
    """Some 300 users; 4.5 standard errors of a share of a fifth: one in 100,000."""
    found = by_name(attack_all(*world, Fraction(1, 1000), published=10, seed=3))
    for each in found.values():
        error = 4.5 * (0.16 / each.users) ** 0.5
        assert abs(each.best - linear.CHANCE) < error
        assert not each.broken
        if each.plain is not None:
            assert each.plain < 0.05
            assert abs(each.clamped - linear.CHANCE) < error
    assert found["damped, list alone"].plain is None


def test_guesses_succeed_as_often_as_the_closed_form_says(world) -> None:
    table, profiles = world
    served = [each for each in profiles if len(each.slots) >= 20]
    forms = [linear.success(12.0, len(each.slots), 0.4, scores=10) for each in served]
    expected = np.mean(forms, axis=0)
    runs = [
        attack_all(table, profiles, Fraction(12), published=10, only=[PRINTED], seed=seed)[0]
        for seed in range(4)
    ]
    error = 4.5 * (0.25 / (4 * len(served))) ** 0.5
    for name, wanted in (("plain", 0), ("clamped", 1), ("averaged", 3)):
        share = np.mean([getattr(each, name) for each in runs])
        assert share == pytest.approx(expected[wanted], abs=error)


def test_the_paper_breaks_its_claim_and_the_corrected_forms_keep_theirs() -> None:
    """200 scores of one epsilon each, users of 20 ratings: a rating moves every one by R / T."""
    generator = np.random.default_rng(7)
    items, users = 230, 300
    slots = [np.sort(generator.choice(items, 20, replace=False)) for _ in range(users)]
    profiles = [Profile(each, generator.integers(1, 6, 20).astype(float)) for each in slots]
    columns = (np.repeat(np.arange(users), 20), np.concatenate(slots))
    stars = np.concatenate([each.stars for each in profiles])
    table = from_ratings(*columns, stars, np.arange(items, dtype=np.uint64))
    found = by_name(attack_all(table, profiles, Fraction(1), published=200))
    assert found["paper"].broken
    assert found["paper"].best > 0.6 > found["paper"].allowed
    assert not any(each.broken for name, each in found.items() if name != "paper")


def test_what_cannot_be_attacked_is_refused(world) -> None:
    table, profiles = world
    with pytest.raises(ValueError, match="epsilon 0"):
        attack_all(table, profiles, Fraction(0))
    with pytest.raises(ValueError, match="no user has 20"):
        attack_all(table, [Profile(np.array([1]), np.array([3.0]))], Fraction(1))
    with pytest.raises(ValueError, match="59 published items"):
        attack_all(table, profiles, Fraction(1), published=59)

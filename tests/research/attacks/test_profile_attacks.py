"""Reconstruction of released profiles: what each attack finds, from epsilon 0 to none."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from research.attacks.attacks import ATTACKS, decoder, ranking
from research.attacks.decoder import Chains
from research.attacks.knowledge import Knowledge
from research.attacks.trials import Measured, Plan, cosine, map_paper_at_k, tried
from research.profiles.blip import Blip
from research.profiles.jlt import JltPaper
from research.profiles.profile_mechanism import ProfileMechanism
from stream_app.privacy.randomness import SeededSource

ITEMS = 300
CATALOGUE = np.arange(10**6, 10**6 + ITEMS, dtype=np.uint64)
SHORT = Chains(burn_steps=200, steps=2_000, burn_sweeps=10, sweeps=40)
DELTA = Fraction(1, 10**6)


@pytest.fixture(scope="module")
def profiles() -> list[np.ndarray]:
    """90 profiles of 8 to 40 items, of which early ones are popular."""
    rng = np.random.default_rng(7)
    shares = 0.4 / (1 + np.arange(ITEMS) / 15)
    found = [CATALOGUE[rng.random(ITEMS) < shares] for _ in range(90)]
    assert min(map(len, found)) >= 8
    return found


@pytest.fixture(scope="module")
def knowledge(profiles: list[np.ndarray]) -> Knowledge:
    return Knowledge.of_training(profiles[10:], CATALOGUE)


def cosines(
    profiles: list[np.ndarray],
    knowledge: Knowledge,
    mechanism: ProfileMechanism,
    attacks: tuple[str, ...] = ATTACKS,
) -> dict[str, float]:
    found = tried(profiles[:10], knowledge, mechanism, Plan(attacks, SHORT, 1))
    assert all(each.mechanism == mechanism.id and each.profiles == 10 for each in found)
    return {each.attack: each.measured.cosine for each in found}


@pytest.mark.parametrize(
    "mechanism",
    [Blip(2000, 6, None), JltPaper(400, None, Fraction(0)), Blip(2000, 6, Fraction(60))],
)
def test_without_noise_joint_decoding_finds_nearly_all(
    profiles: list[np.ndarray], knowledge: Knowledge, mechanism: ProfileMechanism
) -> None:
    found = cosines(profiles, knowledge, mechanism)
    assert found["bits prior"] > 0.97
    assert found["slots prior"] > 0.95
    assert found["popularity"] < 0.6


@pytest.mark.parametrize(
    "mechanism", [Blip(2000, 6, Fraction(0)), JltPaper(400, Fraction(1, 8), Fraction(1, 100))]
)
def test_where_nothing_is_revealed_nothing_but_the_prior_is_found(
    profiles: list[np.ndarray], knowledge: Knowledge, mechanism: ProfileMechanism
) -> None:
    found = cosines(profiles, knowledge, mechanism)
    assert found["single+prior"] == pytest.approx(found["popularity"], abs=0.05)
    assert found["bits prior"] == pytest.approx(found["popularity"], abs=0.08)
    assert found["single"] < found["popularity"] - 0.1
    assert found["slots flat"] < found["popularity"] - 0.1


@pytest.mark.parametrize(
    "mechanism", [Blip(2000, 6, Fraction(4)), JltPaper(400, Fraction(6), DELTA)], ids=str
)
def test_the_prior_and_joint_decoding_each_help(
    profiles: list[np.ndarray], knowledge: Knowledge, mechanism: ProfileMechanism
) -> None:
    found = cosines(profiles, knowledge, mechanism)
    assert found["single+prior"] > found["single"] + 0.02
    assert found["bits prior"] >= found["single+prior"]
    assert found["slots prior"] >= found["slots flat"]


def test_an_item_with_a_bit_that_is_not_set_is_never_found_without_noise(
    profiles: list[np.ndarray], knowledge: Knowledge
) -> None:
    made = Blip(2000, 6, None)
    released = made.release(profiles[0], SeededSource(1))
    scores = decoder(made, knowledge).single(released, len(profiles[0]))
    inside = np.isin(CATALOGUE, profiles[0])
    assert np.isfinite(scores[inside]).all()
    assert np.isinf(scores[~inside]).mean() > 0.9
    uninformed = decoder(Blip(2000, 6, Fraction(0)), knowledge).single(released, 20)
    assert np.allclose(uninformed, 0)


def test_the_single_score_is_the_exact_one_of_its_model(knowledge: Knowledge) -> None:
    """Balu 2016, eq. 3.27, by counting bits; of a projection the ratio of two normal densities."""
    made = Blip(500, 4, Fraction(6))
    released = made.release(CATALOGUE[:9], SeededSource(2))
    scores, bits = decoder(made, knowledge).single(released, 9), made.bits(released[None])[0]
    p, share = float(made.flip), 1 - (1 - 1 / 500) ** (9 * 4)
    q = (1 - p) * share + p * (1 - share)
    for j in (0, 5, 100):
        own = bits[made.filter(CATALOGUE[j : j + 1]) == 1]
        expected = sum(math.log((1 - p) / q) if bit else math.log(p / (1 - q)) for bit in own)
        assert scores[j] == pytest.approx(expected)
    projected = JltPaper(64, Fraction(8), DELTA)
    released = projected.release(CATALOGUE[:9], SeededSource(2))
    scores = decoder(projected, knowledge).single(released, 9)
    y, noise = projected.integers(released[None])[0], float(projected.variance)
    for j in (0, 5, 100):
        own = projected.project(CATALOGUE[j : j + 1])
        with_it, without = noise + 8, noise + 9
        expected = (
            -((y - own) ** 2).sum() / (2 * with_it)
            + (y**2).sum() / (2 * without)
            + 32 * math.log(without / with_it)
        )
        assert scores[j] == pytest.approx(expected)


def test_the_same_seed_finds_the_same(profiles: list[np.ndarray], knowledge: Knowledge) -> None:
    made, plan, done = Blip(500, 4, Fraction(6)), Plan(ATTACKS, SHORT, 5), list[int]()
    first, second = (tried(profiles[:2], knowledge, made, plan, done.append) for _ in range(2))
    assert first == second
    assert sum(done) == 2 * 2 * len(ATTACKS)


def test_the_measures_are_those_of_the_thesis() -> None:
    inside = np.array([True, False, True, False, False])
    ranked = np.array([0, 1, 2, 3, 4])
    assert cosine(ranked, 2, inside) == pytest.approx(1 / 2)
    assert cosine(ranked, 3, inside) == pytest.approx(2 / math.sqrt(6))
    assert cosine(ranked, 0, inside) == cosine(ranked, 3, ~inside & inside) == 0
    assert map_paper_at_k(ranked, inside, 3) == pytest.approx((1 + 1 / 2 + 2 / 3) / 3)
    assert map_paper_at_k(ranked, inside, 10) == pytest.approx(
        (1 + 1 / 2 + 2 / 3 + sum(2 / r for r in range(4, 11))) / 10
    )
    measured = Measured.of_profiles([0.0, 0.5, 1.0], [1.0, 1.0, 0.4])
    assert measured == Measured(0.5, pytest.approx(0.1), pytest.approx(0.9), pytest.approx(0.8))


def test_what_cannot_be_attacked_is_refused_in_words(knowledge: Knowledge) -> None:
    with pytest.raises(ValueError, match="0 profiles"):
        Knowledge.of_training([], CATALOGUE)
    with pytest.raises(ValueError, match="outside the catalogue"):
        Knowledge.of_training([np.array([5], np.uint64)], CATALOGUE)
    with pytest.raises(ValueError, match="0 cosines"):
        Measured.of_profiles([], [])
    made = Blip(500, 4, Fraction(6))
    released = made.release(CATALOGUE[:2], SeededSource(1))
    with pytest.raises(ValueError, match="attack 'guess'"):
        ranking(
            *(decoder(made, knowledge), "guess", released, 2, SHORT, np.random.default_rng(1)),
        )
    many = np.arange(9000, dtype=np.uint64)
    with pytest.raises(ValueError, match="at most 8192"):
        decoder(JltPaper(64, Fraction(8), DELTA), Knowledge(many, np.full(9000, 0.1), 20, 5))


def test_a_catalogue_as_small_as_a_profile_is_decoded() -> None:
    small = CATALOGUE[:3]
    known = Knowledge.of_training([small[:2], small], small)
    found = tried([small, small[:1]], known, Blip(64, 2, Fraction(4)), Plan(ATTACKS, SHORT))
    assert {each.attack for each in found} == set(ATTACKS)

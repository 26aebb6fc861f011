"""PRS, PNSA and PNCF corrected: the searched worst case stays within the proved bound, near it."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest

from research.xmap.neighbour_noise import (
    GaussianSimilarities,
    LaplaceSimilarities,
    _laplace,
)
from research.xmap.neighbours import PrivateNeighbours
from research.xmap.printed_neighbours import PrintedNeighbours
from research.xmap.replacement import PrintedReplacement, PrivateReplacement
from stream_app.privacy.privacy_map import Adjacency
from stream_app.privacy.randomness import SeededSource

EPSILONS = (0.1, 1.0, 4.0, 16.0)


def neighbouring(random: np.random.Generator, size: int, delta: float):
    """Return two vectors of similarities that differ by at most delta, often as far as they may."""
    first = random.choice([random.uniform(-1, 1, size), random.choice([-1.0, 0, 1], size)])
    move = random.choice([-1.0, 1.0], size) * delta
    if random.random() < 0.5:
        move = np.full(size, -delta)
        move[random.integers(size)] = delta
    if random.random() < 0.5:
        first = np.where(move > 0, random.uniform(-1, 1), -np.sign(move) * min(1, delta / 2))
    return first.clip(-1, 1), (first + move).clip(-1, 1)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", [2.0, 0.077])
def test_no_replacement_is_more_likely_by_more_than_epsilon(epsilon, delta):
    random, mechanism = np.random.default_rng(1), PrivateReplacement(epsilon, delta)
    worst = 0.0
    for _ in range(300):
        pair = neighbouring(random, int(random.choice([2, 3, 100])), delta)
        logs = [np.log(mechanism.probabilities(each)) for each in pair]
        worst = max(worst, float(np.abs(logs[0] - logs[1]).max()))
    assert worst <= epsilon * (1 + 1e-12)  # of logarithms of floats
    assert worst >= 0.5 * epsilon


def test_the_ends_of_the_range_are_as_far_apart_as_the_bound_has_it():
    levels = PrivateReplacement(1.0)._levels
    assert levels.levels - 1 == levels.steps == 16
    ends = PrivateReplacement(1.0).probabilities([-1.0, 1.0])
    assert math.log(ends[1] / ends[0]) == pytest.approx(0.5)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("k", [1, 2, 3])
def test_no_list_of_neighbours_is_more_likely_by_more_than_half_of_epsilon(epsilon, k):
    random, mechanism = np.random.default_rng(k), PrivateNeighbours(k, epsilon, 0.3)
    worst = 0.0
    for _ in range(60):
        pair = neighbouring(random, 5, 0.3)
        for places in permutations(range(5), k):
            first, second = (mechanism.log_likelihood(places, each) for each in pair)
            worst = max(worst, abs(first - second))
    assert worst <= mechanism.spent * (1 + 1e-12)
    assert worst >= 0.3 * mechanism.spent


@pytest.mark.parametrize("seed", range(4))
def test_truncation_moves_no_similarity_further_than_the_data_do(seed):
    random = np.random.default_rng(seed)
    for lowest in (-1.0, 0.0):
        for epsilon in (2.0, 50.0, 400.0):
            mechanism = PrivateNeighbours(2, epsilon, 0.2, lowest=lowest)
            for _ in range(50):
                first, second = map(mechanism.truncated, neighbouring(random, 6, 0.2))
                assert np.abs(first - second).max() <= 0.2 + 1e-12


@pytest.mark.parametrize(("k", "epsilon"), [(1, 0.5), (5, 2.0), (50, 16.0), (1, 30.0)])
def test_laplace_on_k_similarities_costs_half_of_epsilon(k, epsilon):
    """All k move by Delta and one unit of rounding; the law is that of the table, by its digits."""
    noise = LaplaceSimilarities(k, epsilon, 0.08)
    half = np.array([float(each) for each in _laplace(noise.scale).probabilities])
    law = [half[x:] @ half[: len(half) - x] for x in range(21)]  # of the difference of two draws
    moved = k * (noise.units + 1) * -np.diff(np.log(law))
    assert moved.max() <= epsilon / 2 * (1 + 1e-9)
    assert moved.min() >= epsilon / 2 * (1 - 1e-9)
    assert noise.delta <= 1e-6


def test_the_noise_has_the_scale_of_all_k_similarities():
    """20,000 draws: the standard error of the mean |noise| is under 1 %."""
    noise, source = LaplaceSimilarities(20, 2 * 20 * 0.5, 0.1), SeededSource(1)
    drawn = np.concatenate([noise.release(np.zeros(20), source) for _ in range(1000)])
    assert np.abs(drawn).mean() == pytest.approx(0.1 / 0.5, rel=0.06)


@pytest.mark.parametrize(("k", "epsilon"), [(1, 1.0), (10, 4.0), (50, 1.0)])
def test_gaussian_noise_is_certified_for_what_one_person_moves(k, epsilon):
    noise = GaussianSimilarities(k, epsilon, 0.08)
    assert noise.law.bound >= math.sqrt(k) * (0.08 / noise.grid + 1) - 1e-9
    sigma = math.sqrt(noise.law.variance) * noise.grid
    exact = math.sqrt(2 * math.log(1.25e6)) * math.sqrt(k) * 0.08 / (epsilon / 2)
    assert 0.5 * exact < sigma < 1.1 * exact  # the usual formula is no tighter
    drawn = GaussianSimilarities(2000, 1000.0, 0.08).release(np.zeros(2000), SeededSource(2))
    wide = GaussianSimilarities(2000, 1000.0, 0.08)
    assert drawn.std() == pytest.approx(math.sqrt(wide.law.variance) * wide.grid, rel=0.1)


def test_gaussian_noise_is_less_than_laplace_for_many_similarities():
    values = np.zeros(50)
    laplace = LaplaceSimilarities(50, 2.0, 0.08).release(values, SeededSource(3))
    gaussian = GaussianSimilarities(50, 2.0, 0.08).release(values, SeededSource(3))
    assert np.abs(gaussian).mean() < 0.6 * np.abs(laplace).mean()


def test_epsilon_0_is_uniform_and_inf_is_the_most_similar():
    row = np.array([0.3, 0.9, -0.5, 0.9])
    assert PrivateReplacement(0).probabilities(row).tolist() == [0.25] * 4
    assert PrivateReplacement(math.inf).probabilities(row).tolist() == [0, 0.5, 0, 0.5]
    source = SeededSource(1)
    drawn = PrivateReplacement(math.inf).release([row] * 60, source).tolist()
    assert set(drawn) == {1, 3}
    assert set(PrivateReplacement(0).release([row] * 99, source).tolist()) == {0, 1, 2, 3}
    chosen = PrivateNeighbours(2, math.inf, 0.1).release(row, source)
    assert sorted(chosen.tolist()) == [1, 3]
    lists = {tuple(PrivateNeighbours(2, 0, 0.1).release(row, source)) for _ in range(300)}
    assert len(lists) == 12
    for noise in (LaplaceSimilarities, GaussianSimilarities):
        assert noise(4, math.inf, 0.1).release(row, source).tolist() == row.tolist()
    assert PrivateReplacement(math.inf).adjacency is Adjacency.NOTHING
    assert "no guarantee" in PrivateReplacement(math.inf).guarantee
    assert PrivateReplacement(2).adjacency is Adjacency.USER


def test_epsilon_of_inf_with_equal_scores_is_a_fair_draw():
    """600 draws of 3: a share is off by .1 with a probability below 1e-6."""
    drawn = PrivateReplacement(math.inf).release(np.zeros((600, 3)), SeededSource(2))
    assert np.bincount(drawn).tolist() == pytest.approx([200] * 3, abs=60)


@pytest.mark.parametrize("epsilon", [0.0, 1.0, math.inf])
def test_all_candidates_are_chosen_where_k_is_larger(epsilon):
    mechanism = PrivateNeighbours(9, epsilon, 0.1)
    chosen = mechanism.release([0.1, 0.5, 0.3], SeededSource(1))
    assert sorted(chosen.tolist()) == [0, 1, 2]
    assert mechanism.window(3) == 0
    one_shot = mechanism.one_shot([0.1, 0.5, 0.3], np.random.default_rng(1))
    assert sorted(one_shot.tolist()) == [0, 1, 2]


def test_rounds_and_one_shot_have_one_law():
    """6,000 draws of each: no share of 20 ordered pairs is off by .03 (false alarm below 1e-6)."""
    row, mechanism = [0.9, 0.2, 0.4, -0.6, 0.1], PrivateNeighbours(2, 8.0, 0.2)
    source, random = SeededSource(4), np.random.default_rng(4)
    pairs = list(permutations(range(5), 2))
    exact = [math.exp(mechanism.log_likelihood(pair, row)) for pair in pairs]
    assert sum(exact) == pytest.approx(1)
    rounds = [tuple(mechanism.release(row, source)) for _ in range(6000)]
    shots = [tuple(mechanism.one_shot(row, random)) for _ in range(6000)]
    for drawn in (rounds, shots):
        assert [drawn.count(pair) / 6000 for pair in pairs] == pytest.approx(exact, abs=0.03)


@pytest.mark.parametrize("epsilon", [-1.0, math.nan, -math.inf])
def test_an_epsilon_that_is_none_is_refused(epsilon):
    for make in (
        lambda: PrivateReplacement(epsilon),
        lambda: PrintedReplacement(epsilon),
        lambda: PrivateNeighbours(2, epsilon, 0.1),
        lambda: LaplaceSimilarities(2, epsilon, 0.1),
        lambda: GaussianSimilarities(2, epsilon, 0.1),
        lambda: PrintedNeighbours(2, epsilon, 9),
    ):
        with pytest.raises(ValueError, match="epsilon"):
            make()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: LaplaceSimilarities(2, 0, 0.1), "no density"),
        (lambda: LaplaceSimilarities(50, 0.01, 0.1), "wider noise"),
        (lambda: LaplaceSimilarities(3, 400, 0.1), "take Gaussian noise"),
        (lambda: GaussianSimilarities(2, 1, 0.1, delta=0), "delta 0"),
        (lambda: GaussianSimilarities(50, 1e-5, 0.1), "wider noise"),
        (lambda: PrivateReplacement(1, 0), "sensitivity 0"),
        (lambda: PrivateReplacement(1, 2.5), "sensitivity 2.5"),
        (lambda: PrivateNeighbours(0, 1, 0.1), "0 neighbours"),
        (lambda: PrivateNeighbours(2, 1, 0.1, rho=1), "rho 1"),
        (lambda: PrivateReplacement(1).release(np.zeros((2, 0)), SeededSource(1)), "1 candidate"),
        (lambda: PrivateReplacement(1).release([[np.nan]], SeededSource(1)), "not a number"),
        (lambda: LaplaceSimilarities(1, 1, 0.1).release([1, 2], SeededSource(1)), "is for 1"),
        (lambda: LaplaceSimilarities(1, 1, 0.1).release([np.nan], SeededSource(1)), "not a number"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_a_sentence(make, words):
    with pytest.raises(ValueError, match=words):
        make()

"""Guerraoui et al. 2017 (X-Map): what its theorems protect, against what they claim.

Nine findings on the printed mechanisms. The corrected ones are under test in
`tests/research/xmap/test_domain_choices.py`, the damped similarity in
`tests/research/xmap/test_x_sim.py`.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from research.xmap.adjusted_cosine import rated_cells, sensitivity
from research.xmap.neighbour_noise import LaplaceSimilarities
from research.xmap.neighbours import PrivateNeighbours
from research.xmap.paths import x_sim
from research.xmap.printed_neighbours import (
    PrintedNeighbours,
    similarity_based_sensitivity,
)
from research.xmap.replacement import PAPER, PrintedReplacement, PrivateReplacement
from stream_app.privacy.privacy_map import Adjacency

pytestmark = pytest.mark.claims


def cosine(a, b) -> float:
    norm = math.sqrt((a @ a) * (b @ b))
    return float(a @ b / norm) if norm > 0 else 0.0


def without(column, person: int):
    return np.where(np.arange(len(column)) == person, 0.0, column)


def largest_change(a, b, people) -> float:
    """Return the largest change of the cosine when one of `people` is removed."""
    return max(abs(cosine(a, b) - cosine(without(a, x), without(b, x))) for x in people)


def centred(random: np.random.Generator, people: int = 6):
    """Return two columns of centred ratings; a 0 is no rating."""
    present = random.random((2, people)) < 0.7
    return np.where(present, random.uniform(-2, 2, (2, people)), 0.0)


# --- PRS ------------------------------------------------------------------------------------------


def books_from_films(with_straddler: bool):
    """Films 0, 1; books 2, 3. People 0 and 1 link film 0 to book 2; person 2 alone makes the path
    to book 3."""
    cells = [(0, 0, 5), (0, 1, 2), (0, 2, 5), (1, 0, 1), (1, 1, 4), (1, 2, 2), (3, 3, 4), (4, 2, 3)]
    if with_straddler:
        cells += [(2, 0, 5), (2, 1, 1), (2, 3, 5)]
    users, items, stars = np.array(cells).T
    table = rated_cells(users, items, stars, 5, 4)
    return x_sim(table.take(np.array([0, 1])), table.take(np.array([2, 3])))


def test_1_a_person_who_makes_the_only_path_decides_what_can_be_drawn():
    known, other = books_from_films(True)[0], books_from_films(False)[0]
    printed = PrintedReplacement(0.6)
    assert printed.probabilities(known, known != 0)[1] > 0.3
    assert printed.probabilities(other, other != 0)[1] == 0  # the loss is infinite
    corrected = PrivateReplacement(0.6)
    loss = np.log(corrected.probabilities(known) / corrected.probabilities(other))
    assert np.abs(loss).max() <= 0.6
    assert (printed.guarantee, printed.adjacency) == (PAPER, Adjacency.NOTHING)


def test_2_a_profile_of_c_replaced_items_costs_c_epsilon():
    mechanism = PrivateReplacement(0.6)
    row, moved = np.full(4000, 1.0), np.full(4000, -1.0)
    row[0], moved[0] = -1, 1
    one_item = np.log(mechanism.probabilities(moved)[0] / mechanism.probabilities(row)[0])
    assert 0.59 < one_item <= 0.6 * (1 + 1e-12)
    assert 50 * one_item > 29  # independent draws: what 50 replaced items show together
    assert mechanism.cost(50) == pytest.approx(30)


def test_3_at_the_claimed_epsilon_the_replacement_is_nearly_uniform():
    row = np.zeros(100)
    row[0] = 1
    drawn = PrivateReplacement(0.6).probabilities(row)
    assert drawn[0] == pytest.approx(0.0116, abs=2e-4)
    ends = PrivateReplacement(0.6).probabilities(np.array([-1.0, 1.0]))
    assert ends[1] / ends[0] == pytest.approx(math.exp(0.3), rel=1e-3)
    assert PrivateReplacement(10).probabilities(row)[0] < 0.15
    assert PrivateReplacement(40).probabilities(row)[0] > 0.99


# --- similarity-based sensitivity -----------------------------------------------------------------


def test_4_the_similarity_based_sensitivity_is_no_bound():
    a, b = np.array([1.0, 1, -1]), np.array([1.0, 1, 1])
    assert cosine(a, b) == pytest.approx(1 / 3)
    assert similarity_based_sensitivity(a, b) == pytest.approx(0.5)
    assert cosine(without(a, 2), without(b, 2)) == pytest.approx(1)  # a change of .667


def test_4_most_pairs_of_centred_ratings_exceed_it_and_no_pair_of_plain_ones():
    random = np.random.default_rng(1)
    exceeded, counted = 0, 0
    for _ in range(2000):
        a, b = centred(random, int(random.integers(3, 12)))
        both = np.flatnonzero((a != 0) & (b != 0))
        bound = similarity_based_sensitivity(a, b)
        if len(both) < 2 or math.isnan(bound):
            continue
        counted += 1
        exceeded += largest_change(a, b, both) > bound + 1e-12
    assert 0.5 < exceeded / counted < 0.75
    for _ in range(1000):
        a, b = np.abs(centred(random, 8))
        both = np.flatnonzero((a != 0) & (b != 0))
        bound = similarity_based_sensitivity(a, b)
        if not math.isnan(bound):
            assert largest_change(a, b, both) <= bound + 1e-9


def test_5_a_person_who_rated_one_of_the_items_matters():
    a, b = np.array([1.0, 3.0, 0.0]), np.array([1.0, 0.0, 0.1])
    assert largest_change(a, b, [1]) > 0.6  # person 1 rated the first item alone
    random = np.random.default_rng(2)
    worst = 0.0
    for _ in range(2000):
        a, b = centred(random)
        alone = np.flatnonzero((a != 0) ^ (b != 0))
        worst = max(worst, largest_change(a, b, alone) if len(alone) else 0.0)
    assert worst > 0.7


def test_6_the_divisor_may_be_zero_or_less():
    random = np.random.default_rng(3)
    found = [similarity_based_sensitivity(*centred(random)) for _ in range(2000)]
    bounds = np.array([each for each in found if not math.isnan(each)])
    assert 0.01 < (bounds <= 0).mean() < 0.2


def test_6_one_pick_tells_more_than_claimed_since_the_exponents_move_with_the_data():
    """Five candidates, eps' = 1, k = 1: a pick may cost eps' / 2; one person moves it further."""
    random, printed = np.random.default_rng(4), PrintedNeighbours(1, 1.0, 12)
    worst = 0.0
    for _ in range(3000):
        table = np.where(random.random((6, 6)) < 0.8, random.uniform(-2, 2, (6, 6)), 0.0)
        logs = []
        for rows in (table, np.where(np.arange(6)[:, None] == 0, 0.0, table)):
            first, rest = rows[:, 0], rows[:, 1:].T
            own = np.array([similarity_based_sensitivity(first, each) for each in rest])
            if np.isnan(own).any() or (own < 0.05).any():  # well away from division by zero
                break
            logs.append(printed.log_probabilities([cosine(first, each) for each in rest], own))
        else:
            worst = max(worst, float(np.abs(logs[0] - logs[1]).max()))
    assert worst > 2 * 0.5
    assert printed.guarantee == PAPER


def test_6_the_damped_similarity_has_one_sensitivity_for_all_pairs():
    proved = {10: 0.571, 100: 0.077, 1000: 0.008}
    for beta, bound in proved.items():
        assert sensitivity(beta, 2) == pytest.approx(bound, abs=5e-4)


# --- PNSA and PNCF --------------------------------------------------------------------------------


def test_7_noise_of_half_of_epsilon_on_each_of_k_similarities_costs_k_times_as_much():
    """All k move by Delta = SS: the density ratio of the printed noise is e^(eps'/2) for each."""
    k, epsilon, moved = 50, 0.8, 0.1
    scale = 2 * moved / epsilon  # Lap(SS / (eps' / 2))
    assert k * moved / scale == pytest.approx(k * epsilon / 2)
    random, printed = np.random.default_rng(5), PrintedNeighbours(k, epsilon, 1000)
    drawn = printed.noisy(np.zeros(20_000), np.full(20_000, moved), random)
    assert np.abs(drawn).mean() == pytest.approx(scale, rel=0.05)  # it is that narrow
    corrected = LaplaceSimilarities(k, epsilon, moved)
    assert k * (corrected.units + 1) * corrected.scale == pytest.approx(epsilon / 2)


def test_8_the_accuracy_of_theorem_3_is_vacuous_at_the_paper_s_parameters():
    assert PrivateNeighbours(50, 0.8, 0.1).window(1000) == pytest.approx(327, abs=1)
    assert PrivateNeighbours(50, 2614, 0.1).window(1000) == pytest.approx(0.1, rel=1e-3)
    assert PrivateNeighbours(50, 26.14, 0.001).window(1000) == pytest.approx(0.1, rel=1e-3)
    row = np.random.default_rng(6).uniform(0, 1, 1000)
    nothing_cut = PrivateNeighbours(50, 0.8, 0.1, lowest=0.0).truncated(row)
    assert nothing_cut.tolist() == row.tolist()  # s_(k) - w is at the end of the range


def test_8_the_printed_parenthesis_cuts_below_the_range_of_a_similarity():
    k, epsilon, length, kth = 2, 1.0, 1000, 0.5
    factor = math.log(k * (length - k) / 0.1)
    printed_window = min(kth, 4 * k * 0.1 / epsilon) * factor
    assert kth - printed_window < -3  # Theorem 3 asks for s_(k) - w >= 0
    exponents = PrintedNeighbours(k, epsilon, length).exponents([0.9, 0.5, 0.0], [0.1] * 3)
    assert np.diff(exponents).tolist() == pytest.approx([-0.5, -0.625])  # nothing is truncated


def test_9_the_length_of_rating_vectors_is_not_the_number_of_candidates():
    """One good neighbour, 999 that are worse by w: the union bound needs the 999."""
    delta, epsilon, rho, candidates = 0.01, 4.0, 0.1, 1000

    def missed(window: float) -> float:
        """Return the exact probability that the one pick is worse by `window`."""
        gain = math.exp(epsilon * window / (4 * delta))
        return (candidates - 1) / (candidates - 1 + gain)

    of_length = 4 * delta / epsilon * math.log(1 * (12 - 1) / rho)  # |v| = 12 ratings
    assert missed(of_length) > 0.85
    assert missed(PrivateNeighbours(1, epsilon, delta, rho).window(candidates)) <= rho

"""Park and Acharya 2011, section 4: sets of k items by a birth-death chain, and what fails.

The paper prints a window over swaps (4.4), a chain over its sets (29-36), a privacy claim that
holds "in the limit", and the statement that the normaliser of (28) cannot be computed.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from research.papers.swapped_sets import (
    SwapChain,
    draw_swaps,
    power_law,
    printed_swaps,
    sums_of_sets,
    swaps,
)
from research.score_noise.k_subset import KSubset
from stream_app.privacy.randomness import SeededSource

pytestmark = pytest.mark.claims
ITEMS, K, LEFT, RIGHT = 1682, 10, 2, 3


def falling_scores(items: int = ITEMS, seed: int = 0) -> np.ndarray:
    scores = np.clip(np.random.default_rng(seed).normal(3.5, 0.6, items), 1, 5)
    return np.sort(scores)[::-1]


def chain(epsilon: float, step: float = 0.05) -> SwapChain:
    sums = sums_of_sets(falling_scores(), K, swaps(ITEMS, K, LEFT, RIGHT))
    return SwapChain(sums / 5, epsilon, step)


def test_the_printed_window_repeats_sets_and_leaves_its_range() -> None:
    printed = [tuple(pair) for pair in printed_swaps(12, LEFT, RIGHT).tolist()]
    assert printed == [
        *((1, 1), (1, 2), (1, 2), (1, 3), (1, 4), (1, 4)),
        *((2, 8), (2, 9), (2, 9), (2, 10), (2, 11), (2, 11)),
    ]
    many = printed_swaps(200, LEFT, RIGHT)
    assert len(np.unique(many[:60], axis=0)) == 40
    assert int(np.argmax(many[:, 0] > LEFT)) + 1 == 13
    assert int(np.argmax(many[:, 0] > K)) + 1 == 61  # position k - j1 + 1 is no position any more


def test_the_set_after_the_top_is_emitted_twice() -> None:
    """S_1 swaps position k for k + 1, and so does S_2 by the formulas at j = 1."""
    assert printed_swaps(1, LEFT, RIGHT).tolist() == [[1, 1]]


def test_the_corrected_window_names_every_swap_once() -> None:
    pairs = swaps(ITEMS, K, LEFT, RIGHT)
    assert [tuple(pair) for pair in pairs[:9].tolist()] == [
        *((1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3), (1, 4), (1, 5), (1, 6))
    ]
    assert len(pairs) == len(np.unique(pairs, axis=0)) == LEFT * RIGHT * ((ITEMS - K) // RIGHT)
    assert len(pairs) == 3342  # and not the paper's (M - k) / (N1 N2) N1 N2:
    assert (ITEMS - K) // (LEFT * RIGHT) * LEFT * RIGHT == 1668
    assert pairs[:, 0].max() == LEFT
    assert pairs[:, 1].max() <= ITEMS - K


def test_the_sets_do_not_come_in_falling_order() -> None:
    """Proposition 4.1 assumes that they do; about a fifth of the steps rise."""
    sums = sums_of_sets(falling_scores(), K, swaps(ITEMS, K, LEFT, RIGHT))
    assert 0.1 < float((np.diff(sums) > 0).mean()) < 0.3


def test_the_chain_approaches_another_law_than_its_target() -> None:
    logs = np.array([0.0, -0.4, -0.5, -0.9, -1.2, -1.3, -1.9, -2.4])
    found = SwapChain(logs, 1.0, 0.1)
    start = np.eye(8)[0]
    settled = found.after(start, 5_000)
    np.testing.assert_allclose(settled, found.stationary, atol=1e-9)
    np.testing.assert_allclose(found.stationary, power_law(logs, 1.0))
    assert 0.5 * np.abs(settled - found.target).sum() > 0.13
    # With half the exponent in its steps it would hit equation 28.
    corrected = SwapChain(logs, 0.5, 0.1).after(start, 5_000)
    np.testing.assert_allclose(corrected, found.target, atol=1e-9)


@pytest.mark.parametrize(
    ("epsilon", "step", "least"), [(1, 0.05, 1.5e7), (10, 0.05, 1e7), (100, 1e-8, 1e10)]
)
def test_the_chain_does_not_mix(epsilon: float, step: float, least: float) -> None:
    """A lower bound of the relaxation time in steps, at the Delta t of the paper."""
    assert chain(epsilon, step).least_relaxation > least


def test_after_ten_thousand_steps_the_chain_is_where_it_began() -> None:
    visited = chain(1).run(10_000, SeededSource(3))
    assert visited.max() < 200 < len(chain(1).logs)
    law = chain(1).after(np.eye(len(chain(1).logs))[0], 2_000)
    assert 0.5 * np.abs(law - chain(1).target).sum() > 0.9


def test_a_divergence_of_zero_from_the_start_is_a_chain_that_does_not_move() -> None:
    """Epsilon 100 with Delta t = 1e-8: nothing is left of 10,000 steps but the top k."""
    still = chain(100, 1e-8)
    assert (still.run(10_000, SeededSource(4)) == 0).all()
    assert 10_000 * still.forward[0] < 1e-4


def test_the_step_of_the_paper_is_too_long_for_some_scores() -> None:
    logs = np.array([0.0, -0.2, 0.0]) * 5
    with pytest.raises(ValueError, match="36"):
        SwapChain(logs, 10.0, 0.05)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 100.0])
def test_the_chain_is_not_private_for_any_epsilon(epsilon: float) -> None:
    """One entry of the completed matrix moves an item into the top k: nearly all sets that can be
    released then were impossible before."""
    k, base = 3, np.linspace(5, 2, 12)
    neighbour = base.copy()
    neighbour[11] = 5.5

    def reachable(scores: np.ndarray) -> set[frozenset[int]]:
        order = np.argsort(-scores, kind="stable")
        pairs = swaps(12, k, LEFT, RIGHT)
        sums = sums_of_sets(scores[order], k, pairs)
        found = [set(order[:k])]
        for j1, j2 in pairs.tolist():
            found.append((set(order[:k]) - {order[k - j1]}) | {order[k + j2 - 1]})
        law = power_law(sums / 5.5, epsilon / 2)
        assert (law > 0).all()
        return {frozenset(int(item) for item in each) for each in found}

    before, after = reachable(base), reachable(neighbour)
    assert len(before) == 19
    assert len(before - after) == 17


def test_an_accuracy_of_ninety_percent_is_the_leak() -> None:
    """Whatever epsilon is, k - 1 items of a released set are among the true top k."""
    order = np.random.default_rng(1).permutation(ITEMS)
    top = set(order[:K].tolist())
    for epsilon in (1e-6, 1.0, 100.0):
        found = chain(epsilon, 0.01)
        for t in draw_swaps(found.target, 200, SeededSource(5)).tolist():
            shown = set(top)
            if t:
                j1, j2 = swaps(ITEMS, K, LEFT, RIGHT)[t - 1].tolist()
                shown = (top - {int(order[K - j1])}) | {int(order[K + j2 - 1])}
            assert len(shown & top) >= K - 1


def test_the_normaliser_is_a_polynomial_and_not_infeasible() -> None:
    """(28) over all 120 sets of 3 of 10, against the sum over every set; then for 10 of 1,682."""
    scores, epsilon = falling_scores(10, 2), 4.0
    subset = KSubset(3, Fraction(4), 5 / 3, 0.0, 5.0, rounding=0.0)
    sets = list(combinations(range(10), 3))
    direct = power_law(np.array([scores[list(each)].sum() / 5 for each in sets]), epsilon / 2)
    np.testing.assert_allclose(np.exp(subset.log_likelihood(sets, scores)), direct, rtol=1e-4)
    many = KSubset(K, Fraction(4), 5 / K, 0.0, 5.0)
    chosen = many.release(falling_scores(), SeededSource(6))
    assert len(np.unique(chosen)) == K


def test_one_entry_costs_half_of_epsilon_and_two_opposite_ones_all_of_it() -> None:
    """Equation 28 is epsilon/2-private for one entry of the completed matrix, which moves all of
    its sets in one direction; phi^epsilon is epsilon-private, and reaches it with two entries."""
    worst = {(power, entries): 0.0 for power in (0.5, 1.0) for entries in (1, 2)}
    sets, draws = list(combinations(range(6), 3)), np.random.default_rng(8)
    for _ in range(400):
        scores = 5 * draws.integers(0, 2, 6).astype(float)
        for power, entries in worst:
            moved = scores.copy()
            moved[0] = 5 - moved[0]
            if entries == 2:
                moved[1] = scores[0] if scores[1] != scores[0] else moved[1]
            laws = [
                power_law(np.array([s[list(each)].sum() / 5 for each in sets]), power)
                for s in (scores, moved)
            ]
            ratio = float(np.abs(np.log(laws[0] / laws[1])).max())
            worst[power, entries] = max(worst[power, entries], ratio)
    assert worst[0.5, 1] < 0.5
    assert 0.5 < worst[1.0, 1] < 1.0
    assert worst[1.0, 2] == pytest.approx(1.0, abs=1e-9)


def test_a_few_steps_are_an_additive_error_and_no_larger_epsilon() -> None:
    """The paper's "epsilon + d-epsilon": after 3 steps a set has probability 0 under one input
    and more under its neighbour, which no finite epsilon covers."""
    logs = np.array([0.0, -0.1, -0.2, -0.3, -0.4, -0.5])
    law = SwapChain(logs, 1.0, 0.2).after(np.eye(6)[0], 3)
    assert law[4] == 0.0
    assert SwapChain(logs, 1.0, 0.2).target[4] > 0.1
    assert math.isclose(law.sum(), 1.0)

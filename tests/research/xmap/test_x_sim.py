"""Adjusted cosine, layers and X-SIM against the definitions, and the proved bound by search."""

from __future__ import annotations

import numpy as np
import pytest

from research.xmap.adjusted_cosine import (
    adjusted_cosine,
    damped_cosine,
    item_means,
    rated_cells,
    sensitivity,
    significance,
)
from research.xmap.paths import Damping, Layer, layers, links_between, x_sim
from tests.naive import domains as naive

# Who rates what: source items 0 .. 5, target items 6 .. 11. Only the third rates in both domains.
LAYERED = {
    0: (0, 1),
    1: (1, 2, 3),
    2: (3, 4, 6, 7),
    3: (7, 8, 9),
    4: (9, 10, 6),
    5: (10, 11),
    6: (3, 4),
    7: (2, 4, 1),
    8: (8, 7),
}
SIZE = 12


def ratings(seed: int) -> naive.Ratings:
    random = np.random.default_rng(seed)
    patterns = [LAYERED[at % len(LAYERED)] for at in range(4 * len(LAYERED))]
    cells = [(user, item) for user, items in enumerate(patterns) for item in items]
    return {cell: float(random.integers(1, 6)) for cell in cells}


def tables(found: naive.Ratings, size: int = SIZE):
    users, items = np.array(list(found)).T
    cells = rated_cells(users, items, list(found.values()), users.max() + 1, size)
    return cells.take(np.arange(size // 2)), cells.take(np.arange(size // 2, size))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("most", [1, 2, 10])
def test_x_sim_is_the_sum_over_every_path(seed, most):
    found = ratings(seed)
    wanted = naive.x_sim(found, set(range(6)), set(range(6, 12)), most)
    source, target = tables(found)
    measured = x_sim(source, target, most)
    named = {(i, j + 6): measured[i, j] for i in range(6) for j in range(6)}
    assert named == pytest.approx(wanted, abs=1e-12)
    assert sum(value != 0 for value in wanted.values()) >= 6


def test_similarity_significance_and_damping_are_the_definitions():
    found = ratings(1)
    source, target = tables(found)
    plain, damped = adjusted_cosine(source, target), damped_cosine(source, target, 3.0, 1.0)
    agree, certain = significance(source, target)
    for i in range(6):
        for j in range(6):
            pair = found, i, j + 6
            assert plain[i, j] == pytest.approx(naive.similarity(*pair), abs=1e-12)
            assert damped[i, j] == pytest.approx(naive.similarity(*pair, 3.0, 1.0), abs=1e-12)
            if any(item == i for _, item in found):
                assert (agree[i, j], certain[i, j]) == pytest.approx(naive.agreeing(*pair))


def test_every_item_is_in_the_layer_of_its_nearest_bridge():
    source, target = tables(ratings(0))
    across = links_between(source, target).linked
    within = links_between(source, source).linked
    assert layers(across, within).tolist() == [
        *(Layer.NN, Layer.NB, Layer.NB, Layer.BB, Layer.BB, Layer.NN)
    ]


def test_without_a_bridge_nothing_is_alike():
    found = {(0, 0): 5.0, (0, 1): 1.0, (1, 6): 2.0, (1, 7): 4.0}
    source, target = tables(found)
    assert not x_sim(source, target).any()
    assert set(layers(links_between(source, target).linked, np.ones((6, 6), bool))) == {Layer.NN}


def test_users_with_one_rating_and_constant_ones_say_nothing():
    found = {(0, 0): 5.0, (1, 6): 2.0, (2, 1): 3.0, (2, 7): 3.0}
    source, target = tables(found)
    assert not adjusted_cosine(source, target).any()
    assert not x_sim(source, target).any()


def test_damped_links_give_an_x_sim_of_their_own():
    source, target = tables(ratings(2))
    assert np.abs(x_sim(source, target, 5, Damping(10, 1))).max() < 0.3
    assert np.abs(x_sim(source, target, 5)).max() > 0.3


def test_the_first_of_two_ratings_counts_and_an_item_without_one_has_the_middle():
    cells = rated_cells([0, 0, 0], [0, 1, 0], [4, 2, 1], 1, 3)
    assert cells.stars.tolist() == [[4, 2, 0]]
    assert cells.centred.tolist() == [[1, -1, 0]]
    assert item_means(cells, 3.5).tolist() == [4, 2, 3.5]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([0], [0, 1], [3.0]), "1 users, 2 items"),
        (([9], [0], [3.0]), "user numbers must be 0 to 1"),
        (([0], [-1], [3.0]), "item numbers must be 0 to 1"),
        (([0], [0], [np.inf]), "finite"),
    ],
)
def test_ratings_that_do_not_fit_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        rated_cells(*arguments, 2, 2)
    with pytest.raises(ValueError, match="1 and 2 people"):
        x_sim(rated_cells([], [], [], 1, 2), rated_cells([], [], [], 2, 2))


@pytest.mark.parametrize(("beta", "clip"), [(np.inf, 2), (-1, 2), (np.nan, 2), (1, 0), (1, np.nan)])
def test_damping_that_bounds_nothing_is_refused(beta, clip):
    with pytest.raises(ValueError, match="must be"):
        sensitivity(beta, clip)


def moved(a, b, x, y, beta):
    """Return |s' - s| where a person with the clipped values x, y joins columns a, b."""
    p, n, m = a @ b, a @ a + beta, b @ b + beta
    return abs((p + x * y) / np.sqrt((n + x * x) * (m + y * y)) - p / np.sqrt(n * m))


@pytest.mark.parametrize("beta", [1.0, 10.0, 100.0, 1000.0])
@pytest.mark.parametrize("clip", [0.5, 2.0])
def test_no_person_moves_a_damped_similarity_beyond_the_bound(beta, clip):
    """Random columns, and the ascent of each towards the largest change: half of the bound."""
    random = np.random.default_rng(int(beta))
    worst = 0.0
    for people in (0, 1, 2, 5, 40, 400):
        for _ in range(60):
            a, b = random.uniform(-clip, clip, (2, people))
            if random.random() < 0.5:
                b = a * random.choice([-1, 1])
            for x, y in ((clip, clip), (clip, -clip), (clip, 0), (0, clip)):
                worst = max(worst, moved(a, b, x, y, beta))
    assert worst <= sensitivity(beta, clip)
    assert worst >= 0.4 * sensitivity(beta, clip)  # the search comes near it


@pytest.mark.parametrize("seed", range(5))
def test_all_ratings_of_a_person_move_no_damped_similarity_beyond_the_bound(seed):
    random = np.random.default_rng(seed)
    cells = [(u, i) for u in range(12) for i in range(SIZE) if random.random() < 0.6]
    found = {cell: float(random.integers(1, 6)) for cell in cells}
    for person in range(12):
        left = {cell: r for cell, r in found.items() if cell[0] != person}
        full, less = (damped_cosine(*tables(each), 5.0, 1.5) for each in (found, left))
        assert np.abs(full - less).max() <= sensitivity(5.0, 1.5)

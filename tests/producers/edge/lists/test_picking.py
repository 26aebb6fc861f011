"""Picking: the best that pass, unlike each other, few of a category; new items by their chances."""

from __future__ import annotations

import numpy as np
import pytest

from producers.edge.lists import picking
from producers.edge.lists.picking import (
    KNOWN_BEFORE,
    NewItems,
    Room,
    Scores,
    best,
    drawn,
    picked,
    shared,
    shares,
)


def everything(places: np.ndarray) -> np.ndarray:
    return np.ones(len(places), bool)


def naive_diverse(scores, likeness, n: int, d: float) -> list[int]:
    """Maximal marginal relevance by its equation, over the best max(50, 5 n)."""
    candidates = sorted(range(len(scores)), key=lambda j: -scores[j])[: max(50, 5 * n)]
    low, high = min(scores[j] for j in candidates), max(scores[j] for j in candidates)
    scaled = {j: (scores[j] - low) / ((high - low) or 1) for j in candidates}
    chosen: list[int] = []
    while len(chosen) < n and candidates:

        def gain(j: int) -> float:
            near = max((likeness[i][j] for i in chosen), default=0.0)
            return (1 - d) * scaled[j] - d * near

        found = max(candidates, key=gain)
        chosen.append(found)
        candidates.remove(found)
    return chosen


@pytest.mark.parametrize("diversity", [0.1, 0.5, 0.9, 1.0])
def test_diverse_lists_are_those_of_the_equation(diversity: float, rng) -> None:
    for items in (3, 30, 200):
        scores = rng.random(items)
        vectors = rng.normal(size=(items, 4))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        likeness = vectors @ vectors.T
        found = picked(
            Scores(np.arange(items), scores), 10, everything, Room(None, lambda place: ()),
            diversity, lambda places, likeness=likeness: likeness[np.ix_(places, places)],
        )  # fmt: skip
        assert found.tolist() == naive_diverse(scores.tolist(), likeness.tolist(), 10, diversity)


def test_at_most_so_many_items_of_a_category_however_deep_the_others_lie(rng) -> None:
    categories = [("a",)] * 400 + [("b", "a")] * 50 + [("b",)] * 50 + [()] * 3
    scores = np.arange(len(categories), 0, -1.0)
    for falling in (False, True):
        found = picked(
            Scores(np.arange(len(categories)), scores, falling), 8, everything,
            Room(2, lambda place: categories[place]), 0.0, lambda places: None,
        )  # fmt: skip
        assert found.tolist() == [0, 1, 450, 451, 500, 501, 502]


def test_categories_count_together_with_diversity(rng) -> None:
    categories = [(f"c{n % 3}",) for n in range(300)]
    found = picked(
        Scores(np.arange(300), rng.random(300)), 10, everything,
        Room(2, lambda place: categories[place]), 0.4, lambda places: None,
    )  # fmt: skip
    counts = np.bincount([int(categories[slot][0][1]) for slot in found])
    assert counts.tolist() == [2, 2, 2]


def test_a_falling_order_is_walked_only_as_far_as_needed() -> None:
    asked = []

    def passes(places: np.ndarray) -> np.ndarray:
        asked.append(len(places))
        return places % 2 == 1

    found = Scores(np.arange(50_000), -np.arange(50_000.0), falling=True)
    assert best(found, 5, passes).tolist() == [1, 3, 5, 7, 9]
    assert asked == [4096]
    unsorted = Scores(found.places, found.scores)
    assert best(unsorted, 5000, passes).tolist() == best(found, 5000, passes).tolist()
    assert best(found, 5, lambda places: np.zeros(len(places), bool)).tolist() == []


def test_shared_categories_are_their_share_of_both() -> None:
    found = shared([("a", "b"), ("b", "c", "d"), (), ("a", "b")])
    assert found[0].tolist() == pytest.approx([1, 0.25, 0, 1])
    assert found[2].tolist() == [0, 0, 0, 0]


def test_the_chance_of_a_new_item_is_that_of_its_posterior_being_the_largest(rng) -> None:
    """Two items, 20,000 draws: a frequency off by .02 has a chance below 1e-7 (.5 / sqrt 20,000 =
    .0035, more than 5.6 standard errors)."""
    new = NewItems(np.array([7, 9]), np.array([8.0, 2.0]), np.array([16.0, 9.0]))
    draws = 20_000
    frequency = np.mean([drawn(new, 1, rng)[0] == 7 for _ in range(draws)])
    rate = (10 + KNOWN_BEFORE * picking._UNKNOWN_RATE) / (25 + KNOWN_BEFORE)
    a, b = KNOWN_BEFORE * rate, KNOWN_BEFORE * (1 - rate)
    grid = (np.arange(200_000) + 0.5) / 200_000
    first = grid ** (a + 8 - 1) * (1 - grid) ** (b + 8 - 1)
    second = grid ** (a + 2 - 1) * (1 - grid) ** (b + 7 - 1)
    below = np.cumsum(second) / second.sum()
    expected = float((first / first.sum()) @ below)
    assert abs(frequency - expected) < 0.02


def test_an_item_that_nobody_likes_is_drawn_less_and_less(rng) -> None:
    counts = []
    for offers in (0.0, 30.0, 300.0):
        new = NewItems(np.arange(2), np.array([0.0, 2.0]), np.array([offers, 20.0]))
        counts.append(sum(drawn(new, 1, rng)[0] == 0 for _ in range(2000)))
    assert counts[0] > counts[1] > counts[2]


def test_the_share_of_places_for_new_items(rng) -> None:
    """1,000,000 places at .2: off by more than .0025 (6 standard errors) below 1e-8."""
    assert abs(sum(len(shares(1000, 0.2, rng)) for _ in range(1000)) / 1e6 - 0.2) < 0.0025
    assert len(shares(10, 0.0, rng)) == 0
    assert shares(10, 1.0, rng).tolist() == list(range(10))

"""Picking: the best that pass, unlike each other, few of a category."""

from __future__ import annotations

import numpy as np
import pytest

from producers.edge.lists.picking import Ranked, Room, by_score, passing, picked, shared


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
        ranked = by_score(
            np.arange(items), scores, "", 0, None, None,
            lambda places, likeness=likeness: likeness[np.ix_(places, places)],
        )  # fmt: skip
        found = picked(ranked, 10, everything, Room(None, lambda place: ()), diversity)
        assert ranked.places[found].tolist() == naive_diverse(
            scores.tolist(), likeness.tolist(), 10, diversity
        )


def test_at_most_so_many_items_of_a_category_however_deep_the_others_lie(rng) -> None:
    categories = [("a",)] * 400 + [("b", "a")] * 50 + [("b",)] * 50 + [()] * 3
    scores = np.arange(len(categories), 0, -1.0)
    for diversity in (0.0, 1e-9):
        ranked = Ranked(np.arange(len(categories)), scores, "")
        room = Room(2, lambda place: categories[place])
        found = picked(ranked, 8, everything, room, diversity)
        assert found == [0, 1, 450, 451, 500, 501, 502]


def test_categories_count_together_with_diversity(rng) -> None:
    categories = [(f"c{n % 3}",) for n in range(300)]
    ranked = by_score(np.arange(300), rng.random(300), "")
    found = picked(ranked, 10, everything, Room(2, lambda place: categories[place]), 0.4)
    counts = np.bincount([int(categories[place][0][1]) for place in ranked.places[found]])
    assert counts.tolist() == [2, 2, 2]


def test_an_order_is_walked_only_as_far_as_needed() -> None:
    asked = []

    def passes(places: np.ndarray) -> np.ndarray:
        asked.append(len(places))
        return places % 2 == 1

    found = Ranked(np.arange(50_000), -np.arange(50_000.0), "")
    assert picked(found, 5, passes, Room(None, lambda place: ()), 0.0) == [1, 3, 5, 7, 9]
    assert asked == [4096]
    assert list(passing(found.places, passes)) == list(range(1, 50_000, 2))
    assert list(passing(found.places, lambda places: np.zeros(len(places), bool))) == []


def test_shared_categories_are_their_share_of_both() -> None:
    found = shared([("a", "b"), ("b", "c", "d"), (), ("a", "b")])
    assert found[0].tolist() == pytest.approx([1, 0.25, 0, 1])
    assert found[2].tolist() == [0, 0, 0, 0]

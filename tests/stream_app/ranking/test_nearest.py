"""Items near to one by links: the strongest first, and of equal ones the smallest tie."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stream_app.kernels.machine.scalars import hash64
from stream_app.ranking.item_side import ItemSide
from stream_app.ranking.scores import linked_to, ties, top_slots
from tests.fixtures.item_sides import item_side


def side_of(targets: list[list[int]], weights: list[list[float]]) -> ItemSide:
    return replace(
        item_side(np.random.default_rng(1), len(targets)),
        link_targets=np.array(targets, np.uint16),
        link_weights=np.array(weights, np.float32),
    )


def test_the_strongest_positive_links_come_first_and_never_the_item_itself() -> None:
    side = side_of(
        [[0, 1, 2, 3], [0, 1, 2, 3], [0, 0, 2, 3], [0, 1, 2, 3]],
        [[9, 0.1, 0.5, -1], [0, 0, 0, 0], [0.2, 0.2, 0, 0.3], [1, 2, 3, 0]],
    )
    assert linked_to(side, 0).tolist() == [2, 1]
    assert linked_to(side, 1).tolist() == []
    assert linked_to(side, 2).tolist() == [0, 3]  # two links to one item count together
    assert linked_to(side, 3).tolist() == [2, 1, 0]


def test_an_item_side_without_links_gives_none() -> None:
    assert linked_to(side_of([[], []], [[], []]), 0).tolist() == []


def test_ties_are_a_bijection_of_the_item_keys():
    keys = np.arange(5_000, dtype=np.uint64) * np.uint64(2**40)
    assert len(np.unique(ties(keys))) == 5_000
    salt = np.uint64(hash64(np.uint64(0x9E3779B97F4A7C15)))
    assert int(ties(keys)[3]) == int(hash64(keys[3] ^ salt))


def test_equal_scores_are_in_the_order_of_their_ties_wherever_the_items_lie():
    keys = np.arange(100, 140, dtype=np.uint64)
    expected = keys[np.argsort(ties(keys))][:7].tolist()
    for seed in range(3):
        mixed = np.random.default_rng(seed).permutation(keys)
        found = top_slots(np.zeros(40, np.float32), 7, None, ties(mixed))
        assert mixed[found].tolist() == expected
    assert expected != keys[:7].tolist()


@pytest.mark.parametrize("k", [0, 1, 3, 10, 11, 1000, -2])
def test_the_best_are_a_sorted_prefix_and_no_more_than_there_are(k):
    random = np.random.default_rng(k + 5)
    scores = random.integers(0, 4, 12).astype(np.float32)
    allowed = np.ones(12, np.bool_)
    allowed[[2, 9]] = False
    own = ties(np.arange(12, dtype=np.uint64))
    order = sorted(np.flatnonzero(allowed), key=lambda j: (-scores[j], own[j]))
    assert top_slots(scores, k, allowed, own).tolist() == order[: max(k, 0)]

"""Items near to one by links: the strongest first, whatever a table that was fetched says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stream_app.ranking.item_side import ItemSide
from stream_app.ranking.similarity.nearest import linked_to
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

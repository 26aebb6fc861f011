"""What each item of a history adds to a score: the parts sum to it, and the largest is named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stream_app.ranking.derivation import derive
from stream_app.ranking.histories import History
from stream_app.ranking.item_side import ItemSide
from stream_app.ranking.reasons import reasons_of
from stream_app.ranking.scores import COUNT, score
from tests.stream_app.ranking.tables import devices, public


@pytest.fixture(scope="module")
def side() -> ItemSide:
    random = np.random.default_rng(5)
    x = devices(random, users=1500, clusters=4)
    tables = random.random((2, x.shape[1], x.shape[1])).astype(np.float32)
    return derive(public(x, *tables), np.full(x.shape[1], 3.5, np.float32)).side


def history_of(slots: list[int]) -> History:
    n = len(slots)
    weights = np.linspace(0.5, 1.0, n).astype(np.float32)
    ages = np.arange(n, dtype=np.float32)[::-1]
    return History(np.array(slots, np.intp), weights, np.minimum(np.arange(n)[::-1] // 2, 2), ages)


@pytest.mark.parametrize("learned", [False, True])
def test_the_parts_of_all_items_sum_to_the_score(side: ItemSide, learned: bool) -> None:
    """Up to what does not depend on the history, which is left out by its weights."""
    weights = np.abs(np.random.default_rng(3).normal(size=2 * COUNT)).astype(np.float32)
    weights[[3, 4, 5, 8, COUNT + 3, COUNT + 4, COUNT + 5, COUNT + 8]] = 0
    if learned:
        side = replace(side, next_weights=weights)
    history, listed = history_of([0, 5, 9, 2, 17]), np.arange(len(side))
    found = reasons_of(side, history, listed)
    rest = 0 if learned else np.float32(0.3) * side.popularity
    expected = score(side, history) - rest
    assert found.added.sum(axis=0) == pytest.approx(expected, rel=1e-3, abs=1e-4)
    some = reasons_of(side, history, listed[7:11])
    assert some.added == pytest.approx(found.added[:, 7:11], abs=1e-6)


def test_the_strongest_item_is_the_first_reason(side: ItemSide) -> None:
    found = reasons_of(side, history_of([0, 5, 9, 2, 17]), np.array([4, 8, 12, 1]))
    first, strongest = found.first().tolist(), found.strongest(3)
    for column, slot in enumerate(first):
        best = int(found.added[:, column].argmax())
        assert slot == (found.slots[best] if found.added[best, column] > 0 else -1)
        assert strongest[column][:1] == ([slot] if slot >= 0 else [])
        assert len(strongest[column]) <= 3
    assert {slot % 4 for slot in first[:3]} == {0}  # items of one taste have equal remainders
    assert first[3] % 4 == 1


def test_an_empty_history_has_no_reasons(side: ItemSide) -> None:
    found = reasons_of(side, history_of([]), np.arange(3))
    assert found.first().tolist() == [-1, -1, -1]
    assert found.strongest(3) == [[], [], []]

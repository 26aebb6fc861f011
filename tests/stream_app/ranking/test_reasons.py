"""What each item of a history adds to a score: the parts sum to it, and the largest is named."""

from __future__ import annotations

import numpy as np
import pytest

from stream_app.ranking.derivation import derive
from stream_app.ranking.histories import History
from stream_app.ranking.item_side import ItemSide
from stream_app.ranking.reasons import ALONE, reasons_of
from stream_app.ranking.scores import Weights, component_scores, taste_map
from tests.stream_app.ranking.tables import devices, public


@pytest.fixture(scope="module")
def side() -> ItemSide:
    counts = public(devices(np.random.default_rng(5), users=1500, clusters=4))
    return derive(counts, np.full(len(counts.keys), 3.5, np.float32))


def history_of(slots: list[int], *, ordered: bool = True) -> History:
    weights = np.linspace(0.3, 1.0, len(slots)).astype(np.float32)
    ages = np.arange(len(slots), dtype=np.float32)[::-1] if ordered else None
    return History(np.array(slots, np.intp), weights, ages)


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize(
    "weights", [Weights(), Weights(1, 0.5, 2, 0.25, 1), *ALONE.values()], ids=str
)
def test_the_parts_of_all_items_sum_to_the_score(
    side: ItemSide, weights: Weights, ordered: bool
) -> None:
    """Up to what does not depend on the history: popularity, stars and the start of the taste."""
    history, tastes = history_of([0, 5, 9, 2, 17], ordered=ordered), taste_map(side)
    components = component_scores(side, history, taste=tastes.taste(history))
    listed = np.arange(len(side))
    found = reasons_of(side, history, tastes.rows[history.slots], components, weights, listed)
    expected = np.zeros(len(side))
    for name, weight, start in (
        ("ease", weights.ease, 0),
        ("ordered", weights.ordered, 0),
        ("low_rank", weights.low_rank, side.rates + side.factors @ tastes.start),
    ):
        scores = getattr(components, name).astype(np.float64)
        if weight and scores.std() > 0:
            expected += weight / scores.std() * (scores - start)
    assert np.allclose(found.added.sum(axis=0), expected, atol=1e-4 * np.abs(expected).max())


def test_the_strongest_item_is_the_first_reason(side: ItemSide) -> None:
    history, tastes = history_of([0, 5, 9, 2, 17]), taste_map(side)
    components = component_scores(side, history, taste=tastes.taste(history))
    listed = np.array([4, 8, 12, 1])
    rows = tastes.rows[history.slots]
    found = reasons_of(side, history, rows, components, Weights(), listed)
    first, strongest = found.first().tolist(), found.strongest(3)
    for column, slot in enumerate(first):
        best = int(found.added[:, column].argmax())
        assert slot == (history.slots[best] if found.added[best, column] > 0 else -1)
        assert strongest[column][:1] == ([slot] if slot >= 0 else [])
        assert len(strongest[column]) <= 3
    assert {slot % 4 for slot in first[:3]} == {0}  # items of one taste have equal remainders
    assert first[3] % 4 == 1


def test_an_empty_history_has_no_reasons(side: ItemSide) -> None:
    history, tastes = history_of([]), taste_map(side)
    components = component_scores(side, history)
    rows = tastes.rows[history.slots]
    found = reasons_of(side, history, rows, components, Weights(), np.arange(3))
    assert found.first().tolist() == [-1, -1, -1]
    assert found.strongest(3) == [[], [], []]

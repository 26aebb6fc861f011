"""Items near to one: of its own taste, never withdrawn ones, and a reason where there are none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stream_app.agents.ranking_service import LEAST_RATINGS
from stream_app.serving import recommender as serving
from stream_app.serving.catalogue import Catalogue
from stream_app.serving.ranked_items import RankedItems, Refused
from stream_app.serving.recommender import Recommender
from stream_app.serving.recommender import similar_items as similar
from stream_app.state.replica import Replica
from stream_app.wire import CatalogueEntry, encode_message, key
from tests.fixtures.clusters import DESIGN, HALF, learned, liked
from tests.stream_app.serving.sides import derived, trained


def listing(*entries: CatalogueEntry) -> Catalogue:
    catalogue = Catalogue()
    for entry in entries:
        catalogue.learn(str(entry.item).encode(), encode_message(entry))
    return catalogue


def found(recommender: Recommender, item: int | str, count: int = 5) -> RankedItems:
    answer = similar(recommender, item, count)
    assert isinstance(answer, RankedItems)
    return answer


def reason(recommender: Recommender, item: int | str) -> str:
    answer = similar(recommender, item, 5)
    assert isinstance(answer, Refused)
    return answer.reason


def test_near_items_are_of_the_same_taste_and_not_the_item_itself() -> None:
    recommender = trained()
    side = derived(recommender).side
    for item in (0, 3, HALF, 2 * HALF - 1):
        answer = found(recommender, item, HALF - 1)
        half = set(range(HALF)) if item < HALF else set(range(HALF, 2 * HALF))
        assert set(answer.items[: HALF // 2].tolist()) <= half - {item}
        assert answer.method == "ease"
        assert answer.as_of == side.version
        assert answer.because == ()
        assert ((answer.scores >= 1) & (answer.scores <= 5)).all()


def test_the_nearest_items_are_those_of_the_largest_links() -> None:
    recommender = trained()
    side = derived(recommender).side
    slot = int(np.flatnonzero(side.keys == 3)[0])
    links = dict(
        zip(side.link_targets[slot].tolist(), side.link_weights[slot].tolist(), strict=True)
    )
    best = sorted((s for s in links if links[s] > 0 and s != slot), key=lambda s: -links[s])
    answer = found(recommender, 3, 100)
    assert answer.items.tolist() == side.keys[best].tolist()


def test_withdrawn_items_are_neither_listed_nor_asked_about() -> None:
    plain = trained()
    derived(plain)
    first, second = found(plain, 3, 2).items.tolist()
    recommender = trained(catalogue=listing(CatalogueEntry(first, withdrawn=True)))
    derived(recommender)
    assert found(recommender, 3, 1).items.tolist() == [second]
    assert reason(recommender, first) == serving.WITHDRAWN


def test_unknown_items_and_items_outside_the_head_are_refused() -> None:
    recommender = trained(catalogue=listing(CatalogueEntry("new", "New")))
    derived(recommender)
    learned(recommender.replica, liked(500, [7777], 1))  # after the item side was derived
    assert reason(recommender, 12345) == serving.UNKNOWN
    assert reason(recommender, "a word") == serving.UNKNOWN
    assert reason(recommender, "new") == serving.OUTSIDE
    assert reason(recommender, 7777) == serving.OUTSIDE


def test_without_an_item_side_or_pairs_there_is_a_reason() -> None:
    assert reason(trained(), 3) == serving.NOTHING_YET
    assert f"once {LEAST_RATINGS} ratings have come" in serving.NOTHING_YET
    none = Recommender(Replica(replace(DESIGN, head_items=0)), Catalogue(), "exact")
    assert reason(none, 3) == serving.NO_PAIRS


@pytest.mark.parametrize("item", [-1, "", "x" * 129])
def test_what_is_no_item_raises(item: int | str) -> None:
    with pytest.raises(ValueError, match="item"):
        key(item)
    with pytest.raises(ValueError, match="item"):
        similar(trained(), item, 5)

"""Local recommendations: what it offers, to whom, and the items that it names as reasons."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from producers.ranking import LocalRecommender, RatedItem
from producers.ranking.published import PublicTable
from stream_app import wire
from stream_app.ranking.item_side import ItemSide
from stream_app.wire import CatalogueEntry
from tests.fixtures.item_sides import item_side

# Two groups: 1, 2, 3 go together and so do 4, 5 and "six"; 9 is the most popular.
ITEMS: tuple[wire.Item, ...] = (1, 2, 3, 4, 5, "six", 9)
GROUP = np.array([0, 0, 0, 1, 1, 1, 2])


def two_groups() -> ItemSide:
    n = len(ITEMS)
    together = (GROUP[:, None] == GROUP) & ~np.eye(n, dtype=bool)
    weights = np.where(together, 0.5, 0.0).astype(np.float32)
    everything = np.broadcast_to(np.arange(n, dtype=np.uint16), (n, n))
    side = item_side(np.random.default_rng(0), n)
    return replace(
        side,
        version=12,
        keys=np.array([wire.key(item) for item in ITEMS], np.uint64),
        popularity=np.float32([0.3, 0.2, 0.1, 0.3, 0.2, 0.1, 0.9]),
        ratings=np.full(n, 3, np.float32),
        link_targets=everything,
        link_weights=weights,
    )


ENTRIES = (
    CatalogueEntry(2, "Two"), CatalogueEntry("six", "Number Six"),
    CatalogueEntry(3, "Three", withdrawn=True),
)  # fmt: skip


@pytest.fixture
def local() -> LocalRecommender:
    entries = {wire.key(entry.item): entry for entry in ENTRIES}
    return LocalRecommender(PublicTable(two_groups(), entries))


def items(
    local: LocalRecommender, *rated: tuple[wire.Item, float | None], k: int = 10
) -> list[wire.Item]:
    return [row.item for row in local.recommend(rated, k).items]


def test_what_goes_with_the_history_comes_first(local: LocalRecommender) -> None:
    assert items(local, (1, 5.0), k=1) == [2]
    assert items(local, (4, 5.0), k=2) == [5, "six"]


def test_rated_and_withdrawn_items_are_not_offered(local: LocalRecommender) -> None:
    offered = items(local, (1, 5.0), (9, 1.0), (4, None))
    assert sorted(map(str, offered)) == ["2", "5", "six"]
    assert len(items(local, *((item, 5.0) for item in ITEMS))) == 0


def test_without_a_history_the_popular_items_are_offered(local: LocalRecommender) -> None:
    found = local.recommend([], 3)
    assert (found.method, found.rated, found.known, found.as_of) == ("popular", 0, 0, 12)
    assert [row.item for row in found.items] == [9, 1, 4]
    strangers = local.recommend([("unknown", 5.0), (77, 4.0)], 3)
    assert (strangers.method, strangers.rated, strangers.known) == ("popular", 2, 0)
    assert [row.item for row in strangers.items] == [9, 1, 4]


def test_without_times_the_order_of_a_history_says_nothing(local: LocalRecommender) -> None:
    assert items(local, (1, 5.0), (4, 5.0)) == items(local, (4, 5.0), (1, 5.0)) == [2, 5, "six", 9]


def test_a_liked_item_counts_more_than_one_that_was_not(local: LocalRecommender) -> None:
    assert items(local, (1, 1.0), (4, 5.0), k=1) == [5]
    assert items(local, (4, 5.0), (1, 1.0), k=1) == [5]


def test_titles_and_unknown_ids_are_shown(local: LocalRecommender) -> None:
    titles = {row.item: row.title for row in local.recommend([], 10).items}
    assert titles[2] == "Two"
    assert titles["six"] == "Number Six"
    assert titles[9] is None
    bare = LocalRecommender(PublicTable(two_groups()))
    assert wire.unlisted(wire.key("six")) in items(bare)


def test_the_items_behind_a_recommendation_are_named(local: LocalRecommender) -> None:
    found = local.recommend([(4, 5.0), (1, 5.0)], 3, because=True)
    reasons = {row.item: row.because for row in found.items}
    assert reasons == {2: (1,), 5: (4,), "six": (4,)}
    assert local.recommend([], 3, because=True).items[0].because == ()
    assert local.recommend([(1, 5.0)], 3).items[0].because == ()


def test_a_list_says_the_visit_that_it_is_for(local: LocalRecommender) -> None:
    assert local.recommend([(1, 5.0)], 3).for_ == "next"
    assert local.recommend([(1, 5.0)], 3, for_="now").for_ == "now"
    with pytest.raises(ValueError, match="for_ 'later': give next or now"):
        local.recommend([(1, 5.0)], 3, for_="later")  # type: ignore[arg-type]


def test_a_repeated_item_counts_once(local: LocalRecommender) -> None:
    assert local.recommend([(1, 1.0), (1, 5.0)], 3) == local.recommend([(1, 5.0)], 3)
    assert local.recommend([RatedItem(1, 1, 5.0)], 3) == local.recommend([(1, 5.0)], 3)


@pytest.mark.parametrize(
    ("rated", "k", "sentence"),
    [
        ([], 0, "k 0: give 1 to 100"),
        ([], 101, "k 101: give 1 to 100"),
        ([(1, 6.0)], 3, "item 1: its stars are outside 1 .. 5"),
        ([(1, float("nan"))], 3, "item 1: its stars are outside 1 .. 5"),
        ([("", 4.0)], 3, "item of 0 bytes"),
        ([(-1, 4.0)], 3, "item -1: an integer item lies in"),
    ],
)
def test_bad_input_is_refused(local: LocalRecommender, rated, k: int, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence.replace("^", r"\^").replace(".", r"\.")):
        local.recommend(rated, k)


def test_a_catalogue_of_one_item_and_a_history_of_ten_thousand() -> None:
    rng = np.random.default_rng(3)
    lone = LocalRecommender(PublicTable(replace(item_side(rng, 1), keys=np.array([5], np.uint64))))
    assert items(lone) == [5]
    assert items(lone, (5, 4.0)) == []
    assert items(lone, (6, 4.0)) == [5]
    side = item_side(rng, 512, 20, 10, 8)
    large = LocalRecommender(PublicTable(replace(side, keys=np.arange(512, dtype=np.uint64))))
    found = large.recommend([(item, 4.0) for item in range(10_000, 100, -1)], 5, because=True)
    assert (found.rated, found.known, len(found.items)) == (9_900, 411, 5)
    assert all(row.because for row in found.items)

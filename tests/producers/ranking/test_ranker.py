"""Lists made on the device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from murmurec.learned_server import CleanRatings, LearnedServer
from producers.ranking.clean_history import RatedItem
from producers.ranking.ranker import Ranked, Ranker, Rated, rated_of
from stream_app.models.factorization.learner import LearnerSpec
from stream_app.privacy import registry
from stream_app.privacy.randomness import SeededSource
from stream_app.ranking.derivation import derive
from stream_app.ranking.histories import History
from stream_app.ranking.pair_counts import RATED
from stream_app.ranking.scores import DEFAULT, Components, score, top_slots
from stream_app.wire import EPOCH_SECONDS
from tests.fixtures.item_sides import item_side
from tests.stream_app.ranking.tables import devices, public

CLUSTERS = 4
SIDES = [item_side(np.random.default_rng(seed), 12, 4, 3, 2, later=3, learned=bool(seed))
         for seed in (0, 1)]  # fmt: skip


@pytest.fixture(scope="module")
def ranker() -> Ranker:
    counts = public(devices(np.random.default_rng(5), users=1500, clusters=CLUSTERS))
    return Ranker(derive(counts, np.full(len(counts.keys), 3.5, np.float32)).side)


def liked(*items: int) -> Rated:
    return Rated.untimed(items, [None] * len(items))


def clusters(ranked: list[Ranked]) -> set[int]:
    return {(row.item - 1) % CLUSTERS for row in ranked}


def test_a_list_is_of_the_users_taste_and_leaves_out_what_is_rated(ranker: Ranker) -> None:
    ranked = ranker.rank(Rated.untimed([1, 5, 9], [5.0, 4.0, 5.0]), k=8)
    assert clusters(ranked) == {0}
    assert not {row.item for row in ranked} & {1, 5, 9}
    assert [row.score for row in ranked] == sorted((row.score for row in ranked), reverse=True)


def test_the_list_for_this_visit_follows_its_newest_items(ranker: Ranker) -> None:
    """By weights that count links by place alone."""
    weights = np.zeros_like(DEFAULT)
    weights[Components._fields.index("place")] = 1
    turned = Ranker(replace(ranker.side, now_weights=weights))
    older, newer = [1, 5, 9, 13], [2, 6, 10, 14]
    for items, cluster in ((older + newer, 1), (newer + older, 0)):
        times = np.arange(8)
        rated = liked(*items)._replace(days=np.zeros_like(times), places=times)
        assert clusters(turned.rank(rated, k=3, now=True)) == {cluster}


def test_without_times_nothing_depends_on_the_order(ranker: Ranker) -> None:
    items = [1, 5, 9, 2, 6]
    forward, back = (ranker.rank(liked(*each), k=10) for each in (items, items[::-1]))
    assert [row.item for row in forward] == [row.item for row in back]


def test_stars_decide_between_tastes(ranker: Ranker) -> None:
    items, stars = [1, 2, 5, 6, 9, 10], [1.0, 5.0] * 3
    assert clusters(ranker.rank(Rated.untimed(items, stars), k=4)) == {1}
    assert clusters(ranker.rank(Rated.untimed(items, stars[::-1]), k=4)) == {0}


def test_because_names_items_of_the_history_of_the_same_taste(ranker: Ranker) -> None:
    ranked = ranker.rank(liked(1, 5, 2, 9), k=5, because=True)
    for row in ranked:
        assert row.because
        assert set(row.because) <= {1, 5, 2, 9}
        assert (row.because[0] - 1) % CLUSTERS == (row.item - 1) % CLUSTERS


def test_without_known_items_the_list_is_the_popular_items(ranker: Ranker) -> None:
    popular = ranker.side.keys[np.argsort(-ranker.side.popularity, kind="stable")[:5]]
    for unknown in (liked(), liked(999, 1000)):
        ranked = ranker.rank(unknown, k=5, because=True)
        assert [row.item for row in ranked] == popular.tolist()
        assert all(row.because == () for row in ranked)
        assert ranker.scored(unknown).method == "popular"
    assert ranker.scored(liked(1)).method == "links"


def test_a_later_rating_of_an_item_replaces_the_earlier(ranker: Ranker) -> None:
    twice = Rated.untimed([1, 5, 2, 1], [1.0, 4.0, 3.0, 5.0])
    assert len(ranker.history(twice).slots) == 3
    assert ranker.rank(twice, k=5) == ranker.rank(Rated.untimed([5, 2, 1], [4.0, 3.0, 5.0]), k=5)


def test_k_beyond_the_catalogue_gives_all_that_is_left(ranker: Ranker) -> None:
    assert len(ranker.rank(liked(1, 2), k=1000)) == len(ranker.side) - 2
    assert ranker.rank(liked(1, 2), k=0) == []


def test_items_without_a_rating_each_are_refused() -> None:
    with pytest.raises(ValueError, match="2 items with 1 ratings"):
        Rated.untimed([1, 2], [4.0])


RATINGS = st.lists(
    st.tuples(
        st.integers(0, 15),
        st.sampled_from([None, 1.0, 3.75, 3.8, 5.0]),
        st.integers(0, 3),  # days between two ratings
        st.integers(0, 1),  # seconds
    ),
    max_size=30,
)


def naive_history(rows: list[tuple[int, bool, int, int]], slot_of: dict[int, int]) -> History:
    """Return the history of ratings (item, like, day, place), oldest first, one at a time."""
    days = sorted({day for _, _, day, _ in rows}, reverse=True)
    places = sorted({place for _, _, day, place in rows if day == days[0]}, reverse=True)
    newest = {item: row for row in rows for item in row[:1]}
    kept = [row for row in rows if newest[row[0]] is row and row[0] in slot_of]
    ago = [min(days.index(day), 2) for _, _, day, _ in kept]
    ages = [
        places.index(place) if not before else 0
        for (_, _, _, place), before in zip(kept, ago, strict=True)
    ]
    return History(
        np.array([slot_of[item] for item, *_ in kept], np.intp),
        np.array([1.0 if like else RATED for _, like, *_ in kept], np.float32),
        np.array(ago, np.int64),
        np.array(ages, np.float32),
    )


@pytest.mark.parametrize("side", SIDES, ids=["default", "learned"])
@given(ratings=RATINGS, now=st.booleans())
def test_a_list_is_in_the_order_of_a_servers_scores(side, ratings, now: bool) -> None:
    keys = [*side.keys.tolist(), 1, 2, 3, 4]  # which the side does not know
    second, rated, rows = 20_000 * EPOCH_SECONDS, [], []
    for item, stars, day, step in ratings:
        second += day * EPOCH_SECONDS + step
        row = RatedItem(keys[item], keys[item], stars, second // EPOCH_SECONDS, second)
        rated.append(row)
        rows.append((row.key, stars is None or stars >= 3.8, row.day, second))
    history = naive_history(rows, dict(zip(side.keys.tolist(), range(12), strict=True)))
    allowed = np.ones(len(side), np.bool_)
    allowed[history.slots] = False
    scores = score(side, history, now=now)
    expected = [(int(side.keys[n]), float(scores[n])) for n in top_slots(scores, 10, allowed)]
    found = Ranker(side).rank(rated_of(rated), k=10, now=now)
    assert [(row.item, row.score) for row in found] == expected


def test_a_device_and_the_server_that_learned_its_true_ratings_agree() -> None:
    """Sixty users, three visits of five likes each, one a message: what a state keeps of an item
    that is not liked is rounded."""
    random = np.random.default_rng(4)
    users = np.tile(np.repeat(np.arange(60), 5), 3)
    items = np.array([random.permutation(30)[:15] for _ in range(60)])
    items = items.reshape(60, 3, 5).transpose(1, 0, 2).reshape(-1) + 1
    levels, days = random.integers(3, 5, 900), np.repeat([20_000, 20_001, 20_005], 300)
    spec = LearnerSpec(factors=2, sketch_bytes=1 << 14, seed=1)
    server = LearnedServer(registry.parse("none:5:inf"), "hybrid", spec, held_out=0.0)
    clean = CleanRatings(
        users.astype(np.uint64), items.astype(np.uint64), levels.astype(np.uint8), days
    )
    list(server.rate(clean, SeededSource(1)))
    served = server.recommender.served
    assert served is not None
    ranker = Ranker(served.side)
    for user in range(60):
        own, device = users == user, np.array([user, 0], "<u8").tobytes()
        rated = Rated.untimed(items[own].tolist(), (1.0 + levels[own]).tolist())
        rated = rated._replace(days=days[own], places=np.flatnonzero(own))
        here, there = ranker.history(rated), server.recommender.history(device, served)
        for name in ("slots", "weights", "visits_ago", "recent"):
            assert getattr(here, name).tolist() == getattr(there, name).tolist()
        for now in (False, True):
            listed = [row.item for row in ranker.rank(rated, k=10, now=now)]
            assert listed == server.recommender.answer(device, 10, now=now).items.tolist()

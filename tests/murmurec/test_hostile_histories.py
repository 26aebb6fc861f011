"""Histories of every awkward kind give whole lists of finite scores, wherever lists are made."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from murmurec import Recommender, evaluate_ranking, learned_lists, learned_server
from murmurec.ranking import RankingOptions
from producers.ranking import LocalRecommender, RatedItem
from producers.ranking.published import PublicTable
from stream_app import wire
from stream_app.state.spec import StateSpec
from tests.fixtures.item_sides import item_side

DAY, TODAY, USERS, ITEMS, EACH, HEAD = 86_400, 20_000, 40, 60, 16, 32
STARS = 1.0, 5.0, 1.0


class Histories(NamedTuple):
    """Users, items, ratings on a scale (n,), and times, None where unknown."""

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    ratings: NDArray[np.float64]
    times: NDArray[np.int64] | None
    scale: tuple[float, float, float] = STARS


def drawn(each: int = EACH, items: int = ITEMS, users: int = USERS) -> Histories:
    """Return histories of two visits each, in which half of the ratings are likes."""
    random = np.random.default_rng(9)
    chosen = np.array([random.permutation(items)[:each] for _ in range(users)])
    visit = np.arange(each) >= each // 2
    times = (TODAY + visit) * DAY + np.arange(each)
    people = np.repeat(np.arange(users), each)
    ratings = random.integers(1, 6, users * each).astype(float)
    return Histories(people, chosen.reshape(-1), ratings, np.tile(times, users))


def timed(times: NDArray[np.int64] | None) -> Histories:
    return drawn()._replace(times=times)


def rated(ratings: float) -> Histories:
    return drawn()._replace(ratings=np.full(USERS * EACH, ratings))


def negative() -> Histories:
    plain = drawn()
    return plain._replace(ratings=5 * (plain.ratings - 3), scale=(-10.0, 10.0, 5.0))


PLAIN = drawn()
assert PLAIN.times is not None
CASES = {
    "no times": timed(None),
    "future times": timed(PLAIN.times + 80 * 365 * DAY),
    "one future rating": timed(np.where(np.arange(USERS * EACH) == 3, 2**33, PLAIN.times)),
    "one visit": timed(TODAY * DAY + np.arange(USERS * EACH) // EACH),
    "a thousand in one second": drawn(1000, 1100, 4)._replace(times=np.full(4000, TODAY * DAY)),
    "all likes": rated(5.0),
    "no likes": rated(1.0),
    "negative levels": negative(),
}


@pytest.fixture(autouse=True)
def _small_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave half of the items outside the head."""
    monkeypatch.setattr(learned_lists, "HEAD_ITEMS", HEAD)
    monkeypatch.setattr(learned_server, "StateSpec", partial(StateSpec, head_items=HEAD))


@pytest.mark.parametrize("for_", ["next", "now"])
@pytest.mark.parametrize("found", CASES.values(), ids=CASES)
def test_a_recommender_lists_them(found: Histories, for_: wire.Visit) -> None:
    model = Recommender(factors=4, sketch_bytes=1 << 14, scale=found.scale)
    columns = found[:3] if found.times is None else found[:4]
    model.fit(columns)
    for user in (0, 3, "new"):
        listed = model.recommend(user, 10, for_=for_)
        assert len({item for item, _ in listed}) == 10
        assert all(found.scale[0] <= stars <= found.scale[1] for _, stars in listed)
        own = set(found.items[found.users == user].tolist()) if user != "new" else set()
        assert not own & {item for item, _ in listed}


@pytest.mark.parametrize("found", CASES.values(), ids=CASES)
def test_lists_of_them_are_measured(found: Histories) -> None:
    columns = {"user": found.users, "item": found.items, "rating": found.ratings}
    if found.times is not None:
        columns["timestamp"] = found.times
    measure = partial(evaluate_ranking, columns, options=RankingOptions(factors=4))
    if found is CASES["no likes"]:
        with pytest.raises(ValueError, match="no rating reaches the likes"):
            measure()
        return
    for row in measure().rows:
        assert 0 <= row.ndcg <= 1
        assert 0 <= row.coverage <= 1
        assert np.isfinite(row.above_popular) or row.method == "popular"


@pytest.mark.parametrize("for_", ["next", "now"])
@pytest.mark.parametrize("learned", [False, True], ids=["default", "learned"])
@pytest.mark.parametrize("found", CASES.values(), ids=CASES)
def test_a_device_lists_them(found: Histories, learned: bool, for_: wire.Visit) -> None:
    """A third of the items of a history are outside the table."""
    side = item_side(np.random.default_rng(2), 1200, 9, 5, 3, later=4, learned=learned)
    side.keys[:] = np.arange(1200) * 3 // 2
    local = LocalRecommender(PublicTable(side))
    own = found.users == 0
    low, high, _ = found.scale
    stars = (1 + 4 * (found.ratings[own] - low) / (high - low)).tolist()
    times = [None] * len(stars) if found.times is None else found.times[own].tolist()
    history = [
        RatedItem(item, item, rating, at and at // DAY, at)
        for item, rating, at in zip(found.items[own].tolist(), stars, times, strict=True)
    ]
    listed = local.recommend(history, 10, because=True, for_=for_)
    assert len(listed.items) == 10
    assert 0 < listed.known < listed.rated
    assert all(np.isfinite(row.score) for row in listed.items)
    assert not {row.item for row in listed.items} & {row.item for row in history}

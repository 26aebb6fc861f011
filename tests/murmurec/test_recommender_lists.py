"""Lists of the recommender in this process: by what goes together, else by popularity."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from murmurec import Recommender, learned_lists

ITEMS, TASTE = 60, 30  # items 0 .. 29 are one taste, 30 .. 59 the other
SMALL: dict[str, Any] = {"factors": 4, "sketch_bytes": 1 << 14, "scale": (1, 5, 1)}
Columns = dict[str, Any]


def two_tastes(*, mixed: bool = False, timed: bool = True) -> Columns:
    """Return 15 ratings of each of 240 users, in turn; user u likes items of taste u % 2 alone, or,
    where `mixed`, of both. Lower items of a taste are the more popular ones."""
    rng = np.random.default_rng(7)
    share = 1 / (3 + np.arange(TASTE))
    pools = {True: np.tile(share, 2), False: share}
    rows = []
    for user in range(240):
        pool = pools[mixed] / pools[mixed].sum()
        first = 0 if mixed else TASTE * (user % 2)
        rows.append(first + rng.choice(len(pool), 15, replace=False, p=pool))
    items = np.array(rows).T.reshape(-1)
    users = np.tile(np.arange(240), 15)
    found = {"user": users, "item": items, "rating": rng.integers(4, 6, len(users))}
    return found | ({"timestamp": np.arange(1, len(users) + 1)} if timed else {})


def listed(model: Recommender, user: int | str, k: int = 5) -> list[int | str]:
    return [item for item, _ in model.recommend(user, k)]


def share_of_own_taste(model: Recommender) -> float:
    found = [int(item) // TASTE == user % 2 for user in range(240) for item in listed(model, user)]
    return float(np.mean(found))


@pytest.mark.parametrize("mechanism", [None, "rr:5:1"])
@pytest.mark.parametrize("timed", [True, False])
def test_a_user_gets_what_goes_with_the_own_items(mechanism: str | None, timed: bool) -> None:
    model = Recommender(mechanism, **SMALL).fit(two_tastes(timed=timed))
    assert share_of_own_taste(model) > 0.95


def test_popular_items_serve_where_nothing_goes_together() -> None:
    ratings = two_tastes(mixed=True)
    model = Recommender(**SMALL).fit(ratings)
    counts = Counter(ratings["item"].tolist())
    for user in range(5):
        seen = set(ratings["item"][ratings["user"] == user].tolist())
        found = [counts[int(item)] for item in listed(model, user, 10)]
        unseen = sorted((n for item, n in counts.items() if item not in seen), reverse=True)
        assert sum(found) > 0.95 * sum(unseen[:10])


def test_an_unknown_user_gets_the_popular_items() -> None:
    ratings = two_tastes()
    model = Recommender(**SMALL).fit(ratings)
    counts = Counter(ratings["item"].tolist())
    best = sorted(counts.values(), reverse=True)[:10]
    assert [counts[int(item)] for item in listed(model, "new", 10)] == best


def test_ratings_that_come_later_count_at_once() -> None:
    model = Recommender(**SMALL).fit(two_tastes())
    before = listed(model, "new", 10)
    assert {int(item) // TASTE for item in before} == {0, 1}
    model.partial_fit((["new"] * 4, [500, 31, 33, 35], [5] * 4, range(10_001, 10_005)))
    assert all(int(item) // TASTE == 1 for item in listed(model, "new"))


def moods(people: int = 120) -> tuple[np.ndarray, ...]:
    """Return users, items, stars and times: on each of three days a user rates eight items of one
    taste, one after the other; which taste is drawn anew every day."""
    random = np.random.default_rng(3)
    rows = []
    for user, day in np.ndindex(people, 3):
        first = TASTE * random.integers(2)
        for second, item in enumerate(random.choice(TASTE, 8, replace=False)):
            rows.append((user, first + item, 5, (100 + day) * 86_400 + second))
    return tuple(np.array(rows).T)


def test_the_list_for_this_visit_learns_that_the_newest_visit_decides() -> None:
    """One user turns from one taste to the other, and another back; for the next visit nothing but
    what they had counts, which is the same."""
    model = Recommender(**SMALL).fit(moods())
    items, second = [*range(8), *range(30, 34)], 103 * 86_400 + np.arange(12)
    for user, order, older in (("turned", items, 8), ("back", items[::-1], 4)):
        times = second + 86_400 * (np.arange(12) >= older)
        model.partial_fit(([user] * 12, order, [5] * 12, times))
    for user, taste in (("turned", 1), ("back", 0)):
        now = [int(item) // TASTE for item, _ in model.recommend(user, 8, for_="now")]
        assert now == [taste] * 8
    assert listed(model, "turned") == listed(model, "back")


def test_items_outside_the_head_follow_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned_lists, "HEAD_ITEMS", 8)
    ratings = two_tastes()
    model = Recommender(**SMALL).fit(ratings)
    seen = set(ratings["item"][ratings["user"] == 3].tolist())
    everything = listed(model, 3, 100)
    assert len(everything) == ITEMS - len(seen)
    assert set(everything) == set(range(ITEMS)) - seen
    # An item that came after the item side was derived.
    model.partial_fit(([9], [77], [5], [20_000]))
    assert 77 in listed(model, 3, 100)
    assert 77 not in listed(model, 9, 100)


def test_the_same_ratings_give_the_same_lists() -> None:
    one, other = (Recommender("rr:5:1", **SMALL).fit(two_tastes(timed=False)) for _ in range(2))
    assert [one.recommend(user) for user in range(20)] == [
        other.recommend(user) for user in range(20)
    ]


@pytest.mark.parametrize(
    ("ratings", "user", "expected"),
    [
        (([1], [7], [5]), 1, []),
        (([1], [7], [5]), 2, [7]),
        (([1, 1, 1], [7, 8, 9], [3, 3, 3]), 1, []),
        (([1, 2, 3], [7, 7, 7], [4, 4, 4]), 4, [7]),
        (([1, 2, 2], [7, 7, 8], [4, 4, 4]), 1, [8]),
    ],
    ids=["one rating", "of another", "one user", "one item", "constant"],
)
def test_too_few_ratings_leave_popular_items(
    ratings: tuple[list[int], ...], user: int, expected: list[int]
) -> None:
    assert listed(Recommender(**SMALL).fit(ratings), user) == expected


def test_a_user_with_ten_thousand_items() -> None:
    model = Recommender(**SMALL).fit((["all"] * 10_000, list(range(10_000)), [4, 5] * 5_000))
    assert model.recommend("all") == []
    assert len(listed(model, "new", 100)) == 100


def test_items_near_to_one_are_of_its_taste() -> None:
    model = Recommender(**SMALL).fit(two_tastes())
    for item in (0, 1, TASTE, TASTE + 1):
        found = model.similar(item, 5)
        assert len(found) == 5
        assert item not in found
        assert {int(each) // TASTE for each in found} == {item // TASTE}
    assert model.similar(0, 3) == model.similar(0, 5)[:3]
    assert model.similar("unknown") == model.similar(10**6) == []


def test_each_item_of_a_list_has_a_rated_one_behind_it() -> None:
    ratings = two_tastes()
    model = Recommender(**SMALL).fit(ratings)
    for user in range(6):
        rated = set(ratings["item"][ratings["user"] == user].tolist())
        found = model.because(user, listed(model, user))
        assert len(found) == 5
        assert set(found) <= rated
    assert model.because("new", [0, 1]) == [None, None]
    assert model.because(0, ["unknown"]) == [None]
    assert model.because(0, []) == []


def test_near_items_and_reasons_of_nothing_are_empty() -> None:
    model = Recommender(**SMALL)
    assert model.similar(5) == []
    assert model.because(1, [5]) == [None]


@pytest.mark.parametrize("k", [0, -1, True, 2.5])
def test_a_bad_number_of_near_items_is_refused(k: Any) -> None:
    with pytest.raises(ValueError, match="1 or more"):
        Recommender(**SMALL).similar(5, k)

"""What is held out, who is tested, what is relevant: compared with the obvious versions."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from stream_app.evaluation.ranking import NothingToTest, ranking_task
from stream_app.evaluation.ranking.task import MOST_USERS, SPLITS, held_out

Rows = tuple[np.ndarray, np.ndarray, np.ndarray]


def rows(seed: int = 0, n: int = 600, users: int = 30, items: int = 25) -> Rows:
    random = np.random.default_rng(seed)
    cells = random.choice(users * items, n, replace=False)
    user, item = (cells // items + 7).astype(np.uint64), (cells % items + 100).astype(np.uint64)
    return user, item, random.integers(1, 6, n).astype(float)


def days_of(n: int) -> np.ndarray:
    return np.arange(n) // 150


def naive(users: list[int], split: str, days: list[int]) -> list[bool]:
    left, total, found = Counter(users), Counter(users), []
    own: dict[int, set[int]] = {}
    for user, day in zip(users, days, strict=True):
        own.setdefault(user, set()).add(day)
    for row, user in enumerate(users):
        left[user] -= 1
        last = {"last": 1, "user-time": total[user] // 5}.get(split, 0)
        later = split == "visit" and len(own[user]) > 1 and days[row] == max(own[user])
        later |= split == "global" and row >= len(users) * 4 / 5
        found.append(left[user] < last or later)
    return found


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("n", [1, 4, 5, 599, 600])
def test_the_latest_rows_are_held_out(split: str, n: int) -> None:
    users, _, _ = rows(n=600)
    users, days = users[:n], days_of(n)
    assert held_out(users, split, days).tolist() == naive(users.tolist(), split, days.tolist())


def test_an_unknown_split_is_refused_with_all_names() -> None:
    with pytest.raises(ValueError, match="split random: choose global, visit, user-time or last"):
        held_out(np.arange(3, dtype=np.uint64), "random")


def test_visits_are_not_held_out_of_ratings_without_times() -> None:
    with pytest.raises(ValueError, match="split visit: the ratings have no times; choose"):
        held_out(np.arange(3, dtype=np.uint64), "visit")


def test_of_a_global_split_users_with_five_learned_ratings_are_tested() -> None:
    users = np.array([1] * 5 + [2] * 4 + [3] * 7 + [1, 2, 3, 3], np.uint64)
    items = np.array([*range(5), *range(4), *range(7), 6, 6, 8, 9], np.uint64)
    liked = np.ones(20, bool)
    task = ranking_task(users, items, liked * 5.0, liked, "global")
    assert task.users[task.tested].tolist() == [1]


@pytest.mark.parametrize("split", SPLITS)
def test_a_task_holds_histories_and_the_likes_after_them(split: str) -> None:
    users, items, ratings = rows()
    liked = ratings >= 4
    days = days_of(len(users))
    task = ranking_task(users, items, ratings, liked, split, days=days)
    held = held_out(users, split, days)
    assert task.learned.days is not None
    assert task.learned.days.tolist() == days[~held].tolist()
    assert task.rows.tolist() == np.flatnonzero(~held).tolist()
    known = set(items[~held].tolist())
    for place, user in enumerate(task.users[task.tested].tolist()):
        own = users == user
        history, likes = task.history.of_user(place)
        assert task.items[history].tolist() == items[own & ~held].tolist()
        assert likes.tolist() == liked[own & ~held].tolist()
        later = [item for item in items[own & held & liked].tolist() if item in known]
        assert task.items[task.relevant.of_user(place)[0]].tolist() == later
        assert later
        assert len(history)


def test_a_user_is_tested_with_a_history_and_a_known_item_liked_later() -> None:
    users = np.array([1, 2, 2, 3, 3, 4, 4, 1, 4], np.uint64)
    items = np.array([5, 5, 6, 5, 6, 6, 5, 6, 9], np.uint64)
    liked = np.array([1, 1, 1, 1, 0, 1, 1, 1, 1], bool)
    task = ranking_task(users, items, liked * 4.0 + 1, liked, "last")
    # 3 does not like its last item, and no other user has rated the last item of 4.
    assert task.users[task.tested].tolist() == [1, 2]
    assert task.items.tolist() == [5, 6]


def test_a_cell_that_is_rated_again_counts_once_where_it_was_first_rated() -> None:
    users = np.array([2, 2, 1, 1, 1, 1], np.uint64)
    items = np.array([7, 8, 5, 6, 7, 5], np.uint64)
    task = ranking_task(users, items, np.full(6, 5.0), np.ones(6, bool), "last")
    assert task.rows.tolist() == [0, 2, 3]
    assert task.items[task.relevant.of_user(0)[0]].tolist() == [7]


def test_nothing_to_test_with_is_refused() -> None:
    users, items, ratings = rows()
    with pytest.raises(ValueError, match="no rating reaches the likes of its scale"):
        ranking_task(users, items, ratings, np.zeros(len(users), bool))
    first = np.arange(len(users)) == 0
    with pytest.raises(NothingToTest, match="split user-time: no user has learned ratings and"):
        ranking_task(users, items, ratings, first)


def test_the_tested_users_are_drawn_by_the_seed() -> None:
    user = np.repeat(np.arange(MOST_USERS + 50, dtype=np.uint64), 2)
    item = np.tile(np.array([1, 2], np.uint64), MOST_USERS + 50)
    item[1::4] = 3
    liked = np.ones(len(user), bool)
    item[0], item[2] = 2, 3
    drawn = [
        ranking_task(user, item, liked * 5.0, liked, "last", seed).tested.tolist()
        for seed in (1, 1, 2)
    ]
    assert [len(set(each)) for each in drawn] == [MOST_USERS] * 3
    assert drawn[0] == drawn[1] != drawn[2]


def test_given_rows_are_held_out_in_place_of_those_of_a_split() -> None:
    users, items, ratings = rows()
    held = held_out(users, "last") & (users < 12)
    task = ranking_task(users, items, ratings, ratings >= 4, held=held)
    assert task.rows.tolist() == np.flatnonzero(~held).tolist()
    later = np.flatnonzero(held & (ratings >= 4))
    assert task.users[task.tested].tolist() == np.unique(users[later]).tolist()
    assert sorted(task.items[task.relevant.values]) == sorted(items[later])

"""What is held out, and what is ranked for whom.

    global      the last fifth of the stream; users with 5 learned ratings or more are tested
    visit       each user's last day of ratings, of users with two days or more
    user-time   each user's last fifth, rounded down
    last        each user's last rating

Rows are in time order, or in the order of the file if it has no times: the learned part is older
than the part that is tested.

    known item    rated in the learned part; all of them are ranked but the user's own history
    relevant      held out, known, and a like
    user          has a history, as long as the split asks for, and something relevant; at most
                  `MOST_USERS`, drawn by a seed

Items and users are counted from 0 in the order of their keys. Lists hold the k best known items
without the user's own history. Equal scores keep the order of the item keys; an item with the score
-inf is in no list, and the empty places of a short list hold -1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

MOST_USERS = 2_000


class NothingToTest(ValueError):
    """No user has a history and a later like: another split may have some."""


class LearnedRatings(NamedTuple):
    """The learned rows in time order: places of user and item, TRUE ratings, which are likes, and
    days since 1970, None where the order says nothing."""

    users: NDArray[np.intp]
    items: NDArray[np.intp]
    ratings: NDArray[np.float64]
    liked: NDArray[np.bool_]
    days: NDArray[np.int64] | None = None


class Ragged(NamedTuple):
    """Places of items for each tested user: those of user j are values[starts[j] : starts[j + 1]].

    `liked` is True for all where they are the relevant ones.
    """

    starts: NDArray[np.intp]
    values: NDArray[np.intp]
    liked: NDArray[np.bool_]

    def of_user(self, user: int) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Return the items of a user, oldest first, and which are likes."""
        span = slice(self.starts[user], self.starts[user + 1])
        return self.values[span], self.liked[span]

    def dense(self, first: int, last: int, items: int) -> NDArray[np.bool_]:
        """Return which items (last - first, items) some users have."""
        found = np.zeros((last - first, items), np.bool_)
        starts = self.starts[first : last + 1]
        rows = np.repeat(np.arange(last - first), np.diff(starts))
        found[rows, self.values[starts[0] : starts[-1]]] = True
        return found


class RankingTask(NamedTuple):
    """Keys of known items (n,) and learned users (u,); the learned ratings and their rows of the
    data; the tested users as places (t,) in `users`, with history and relevant items."""

    items: NDArray[np.uint64]
    users: NDArray[np.uint64]
    rows: NDArray[np.intp]
    learned: LearnedRatings
    tested: NDArray[np.intp]
    history: Ragged
    relevant: Ragged

    def learned_rows(self) -> list[NDArray[np.intp]]:
        """Return the learned rows of each tested user, oldest first."""
        order = np.argsort(self.learned.users, kind="stable")
        starts = np.searchsorted(self.learned.users[order], np.arange(len(self.users) + 1))
        return [order[starts[user] : starts[user + 1]] for user in self.tested.tolist()]


def ranking_task(
    users: NDArray[np.uint64],
    items: NDArray[np.uint64],
    ratings: NDArray[np.float64],
    liked: NDArray[np.bool_],
    split: str = "user-time",
    seed: int = 0,
    days: NDArray[np.int64] | None = None,
    held: NDArray[np.bool_] | None = None,
) -> RankingTask:
    """Return the task of rows (n,) in time order; a cell that occurs again counts once, as first
    learned. `held` (n,): rows that are held out in place of those of the split.

    Raises ValueError for an unknown split, or one that needs `days`, and where nothing is liked;
    NothingToTest where no user has a history and a later like.
    """
    first = _first_of_each_cell(users, items)
    if held is None:
        held = held_out(users[first], split, None if days is None else days[first])
    else:
        held = held[first]
    rows, later = first[~held], first[held]
    known_users, by_user = np.unique(users[rows], return_inverse=True)
    known_items, by_item = np.unique(items[rows], return_inverse=True)
    if not liked.any():
        raise ValueError("no rating reaches the likes of its scale, so no list can be measured")
    later = later[liked[later]]
    enough = known_users[np.bincount(by_user) >= LEAST_LEARNED.get(split, 1)]
    later = later[np.isin(users[later], enough) & np.isin(items[later], known_items)]
    if not len(later):
        raise NothingToTest(
            f"split {split}: no user has learned ratings and, held out, a liked item that was "
            "learned from anyone; take more ratings or another split"
        )
    wanted = np.searchsorted(known_users, users[later])
    tested = np.unique(wanted)
    if len(tested) > MOST_USERS:
        draw = np.random.default_rng(seed).choice(tested, MOST_USERS, replace=False)
        tested = np.sort(draw)
    known_days = None if days is None else days[rows]
    learned = LearnedRatings(by_user, by_item, ratings[rows], liked[rows], known_days)
    relevant = _grouped(wanted, np.searchsorted(known_items, items[later]), liked[later], tested)
    history = _grouped(by_user, by_item, learned.liked, tested)
    return RankingTask(known_items, known_users, rows, learned, tested, history, relevant)


def _first_of_each_cell(users: NDArray[np.uint64], items: NDArray[np.uint64]) -> NDArray[np.intp]:
    """Return the rows that are the first of their user and item, in order."""
    _, by_user = np.unique(users, return_inverse=True)
    keys, by_item = np.unique(items, return_inverse=True)
    _, first = np.unique(by_user * max(len(keys), 1) + by_item, return_index=True)
    return np.sort(first)


def _grouped(
    users: NDArray[np.intp],
    items: NDArray[np.intp],
    liked: NDArray[np.bool_],
    tested: NDArray[np.intp],
) -> Ragged:
    """Return the rows of tested users by user, in their order."""
    kept = np.flatnonzero(np.isin(users, tested))
    places = np.searchsorted(tested, users[kept])
    order = kept[np.argsort(places, kind="stable")]
    starts = np.concatenate(([0], np.cumsum(np.bincount(places, minlength=len(tested)))))
    return Ragged(starts.astype(np.intp), items[order], liked[order])


Split = Literal["global", "visit", "user-time", "last"]
SPLITS: tuple[Split, ...] = ("global", "visit", "user-time", "last")
LEAST_LEARNED = {"global": 5}  # learned ratings of a tested user; of other splits 1
_PARTS = 5  # one of so many parts is held out


def held_out(
    users: NDArray[np.uint64], split: str, days: NDArray[np.int64] | None = None
) -> NDArray[np.bool_]:
    """Return which rows (n,) in time order are held out; ValueError for an unknown split, and for
    `visit` without the days (n,) of the ratings."""
    if split not in SPLITS:
        raise ValueError(f"split {split}: choose {', '.join(SPLITS[:-1])} or {SPLITS[-1]}")
    n = len(users)
    if split == "global":
        return np.arange(n) >= n - n // _PARTS
    _, inverse, counts = np.unique(users, return_inverse=True, return_counts=True)
    order = np.argsort(inverse, kind="stable")
    ends = np.cumsum(counts)
    if split == "visit":
        if days is None:
            raise ValueError("split visit: the ratings have no times; choose user-time or last")
        first, last = days[order[ends - counts]], days[order[ends - 1]]
        return np.asarray((days == last[inverse]) & (first < last)[inverse])
    after = np.empty(n, np.int64)  # ratings of the same user that follow
    after[order] = ends[inverse[order]] - 1 - np.arange(n)
    held = np.ones(n, np.int64) if split == "last" else counts[inverse] // _PARTS
    return np.asarray(after < held)


Scorer = Callable[[int, int], NDArray[np.floating]]
"""Return the scores (last - first, items) of tested users first .. last - 1."""

_BLOCK = 256


def lists_of(task: RankingTask, scores: Scorer, k: int) -> NDArray[np.intp]:
    """Return the best k items (t, k) of each tested user, best first, -1 where there are fewer."""
    n, users = len(task.items), len(task.tested)
    lists = np.full((users, k), -1, np.intp)
    for first in range(0, users, _BLOCK):
        last = min(first + _BLOCK, users)
        found = np.array(scores(first, last), np.float32)
        found[task.history.dense(first, last, n)] = -np.inf
        lists[first:last, : min(k, n)] = _best(found, k)
    return lists


def _best(scores: NDArray[np.float32], k: int) -> NDArray[np.intp]:
    """Return the columns (b, min(k, n)) of the k largest of each row, -1 for -inf."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    order[np.isneginf(np.take_along_axis(scores, order, 1))] = -1
    return order

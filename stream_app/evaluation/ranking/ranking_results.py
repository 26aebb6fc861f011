"""The figures of lists: one row for every way to make them, and nDCG of each user.

where     server: from what the server holds; device: from the clean history and what the server
          publishes; baseline: from everybody's true ratings
popularity share    of the twentieth of the items that most users have rated

    mean +- 1.96 s / sqrt(n)      s the standard deviation over n users (normal approximation)
    difference                    the mean over users of what one way gains and the other does not

A user without a list is NaN and left out. Two ways are compared user by user, because users differ
far more than ways: the difference of two means has a much wider interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.evaluation.ranking import list_quality
from stream_app.evaluation.ranking.task import RankingTask

_NORMAL = 1.96  # 95 % of a normal distribution are within so many standard deviations

Gains = NDArray[np.float64]
"""nDCG@k of each tested user (t,), NaN without a list."""


class Mean(NamedTuple):
    """A mean over `users` users and its standard error, NaN for fewer than two."""

    value: float
    error: float
    users: int

    def __str__(self) -> str:
        known = f" ± {self.half_width:.3f}" if self.error == self.error else ""
        return f"{self.value:.3f}{known}"

    @property
    def half_width(self) -> float:
        """Half the width of the 95 % interval."""
        return _NORMAL * self.error

    @classmethod
    def over(cls, gains: Gains) -> Mean:
        """Return the mean of the users that are not NaN."""
        known = gains[~np.isnan(gains)]
        n = len(known)
        error = float(known.std(ddof=1)) / n**0.5 if n > 1 else float("nan")
        return cls(float(known.mean()) if n else float("nan"), error, n)


def difference(first: Gains, second: Gains) -> Mean:
    """Return the mean of `first` minus `second` over the users of both."""
    return Mean.over(first - second)


def user_gains(task: RankingTask, lists: NDArray[np.intp]) -> Gains:
    """Return nDCG@k of the tested users from lists (t, k) of places of items, -1 where there are
    fewer."""
    relevant = [task.relevant.of_user(user)[0] for user in range(len(task.tested))]
    return list_quality.ndcg_of_users(lists, relevant)


def gains_by_key(task: RankingTask, lists: Mapping[int, Sequence[int]], k: int) -> Gains:
    """Return nDCG@k of the tested users from lists of item keys by user key, as a deployment gave
    them; what is not in the task is passed over, and is no hit."""
    places = np.full((len(task.tested), k), -1, np.intp)
    keys, listed = task.users[task.tested].tolist(), np.zeros(len(task.tested), np.bool_)
    for row, user in enumerate(keys):
        if user in lists:
            listed[row] = True
            items = np.array(lists[user][:k], np.uint64)
            found = np.minimum(np.searchsorted(task.items, items), len(task.items) - 1)
            places[row, : len(items)] = np.where(task.items[found] == items, found, -1)
    return np.where(listed, user_gains(task, places), np.nan)


_POPULAR_PARTS = 20
_UNKNOWN = Mean(float("nan"), float("nan"), 0)


@dataclass(frozen=True)
class RankingRow:
    """The figures of one way to make lists; NaN where too few users or items leave none.

    messages: how devices sent their ratings; empty where that does not matter. ndcg_error: the
    standard error of `ndcg`, over users. above_popular: nDCG minus that of the most popular items,
    with the standard error of the difference on the same users; NaN for popularity itself.
    """

    method: str
    where: str
    history: str
    messages: str
    ndcg: float
    ndcg_error: float
    above_popular: float
    above_popular_error: float
    recall: float
    hit_rate: float
    coverage: float
    overlap: float
    popularity_share: float


@dataclass(frozen=True)
class RankingResult:
    """The figures of one split, a row for every way; the first is that of the devices' lists of
    what is liked next, and without an item side, from too few ratings, that of the server.

    users: tested ones; items: known ones, which are ranked; learned: ratings, or published cells;
    scope, cells: as in `EvaluationResult`. in_time: False where the data have no times.
    """

    split: str
    k: int
    model: str
    mechanism: str
    epsilon: float | None
    users: int
    items: int
    learned: int
    scope: int
    cells: int
    in_time: bool
    rows: tuple[RankingRow, ...]

    def row(self, **wanted: str) -> RankingRow:
        """Return the first row whose fields have these values."""
        return next(
            row
            for row in self.rows
            if all(getattr(row, name) == value for name, value in wanted.items())
        )

    @property
    def ndcg(self) -> float:
        """nDCG of the first row."""
        return self.rows[0].ndcg

    @property
    def ndcg_popular(self) -> float:
        """nDCG of the most popular items."""
        return self.row(method="popular", where="baseline").ndcg


class Way(NamedTuple):
    """A way to make lists: its name, where it is done, what is known of the history; the lists; in
    which messages the ratings were sent."""

    method: str
    where: str
    history: str
    lists: NDArray[np.intp]  # (t, k) places of items, best first, -1 where there are fewer
    messages: str = ""


def row_of(task: RankingTask, way: Way, popular: Gains | None = None) -> RankingRow:
    """Return the figures of the lists of the tested users, compared with those of popular items."""
    lists = way.lists
    relevant = [task.relevant.of_user(user)[0] for user in range(len(task.tested))]
    found = user_gains(task, lists)
    ndcg, above = Mean.over(found), _UNKNOWN if popular is None else difference(found, popular)
    return RankingRow(
        method=way.method,
        where=way.where,
        history=way.history,
        messages=way.messages,
        ndcg=ndcg.value,
        ndcg_error=ndcg.error,
        above_popular=above.value,
        above_popular_error=above.error,
        recall=list_quality.recall(lists, relevant),
        hit_rate=list_quality.hit_rate(lists, relevant),
        coverage=list_quality.coverage(lists, len(task.items)),
        overlap=list_quality.overlap(lists),
        popularity_share=list_quality.popularity_share(lists, _popular(task)),
    )


def _popular(task: RankingTask) -> NDArray[np.intp]:
    counts = np.bincount(task.learned.items, minlength=len(task.items))
    return np.argsort(-counts, kind="stable")[: -(-len(counts) // _POPULAR_PARTS)]

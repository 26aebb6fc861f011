"""nDCG of each user, its mean with an interval, and the difference of two ways on the same users.

    mean +- 1.96 s / sqrt(n)      s the standard deviation over n users (normal approximation)
    difference                    the mean over users of what one way gains and the other does not

A user without a list is NaN and left out. Two ways are compared user by user, because users differ
far more than ways: the difference of two means has a much wider interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

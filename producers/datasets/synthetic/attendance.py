"""How much generated users rate, and when: sizes of histories, days, and how many ratings a day.

Four users of ten come back after their first day, most of them soon; a few come back for the rest
of the time. All of a visit is within one day of UTC. Shaped after MovieLens-1M (`world.py`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_DAY = 86_400
_START = 1_735_689_600  # 2025-01-01: when the generated time begins
_RETURNING = 0.41  # of the users
_MORE_VISITS = (1.4, 1.6)  # mean and deviation of the logarithm of their number
_FIRST = 0.6  # of the size of a first visit, to that of all others
_JOINING = 0.3  # of the time, in which users join
_SECONDS = 15.0  # between two ratings of a visit
_LONGEST = 20_000.0  # seconds of a visit


def history_sizes(
    random: np.random.Generator, users: int, items: int, ratings: int
) -> NDArray[np.int64]:
    """Return how many items each user rates (users,): between an eighth of the mean and four times
    the mean, and half of the items at most. Their sum is near `ratings`."""
    shares = random.lognormal(0.0, 1.1, users)
    least, most = ratings / users / 8, max(1, min(items // 2, 4 * ratings // users))
    factor = (ratings - least * users) / shares.sum()
    counts = np.ones(users, np.int64)
    for _ in range(20):
        counts = np.clip(np.rint(least + shares * factor), 1, most).astype(np.int64)
        factor *= ratings / counts.sum()
    return counts


def visits(
    random: np.random.Generator, ratings: int, days: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the sizes (v,) of one user's visits, the first one first, and the rising times
    (ratings,) of its ratings."""
    joined = int(days * _JOINING * np.sqrt(random.random()))
    after = np.zeros(1, np.int64)
    if random.random() < _RETURNING and min(ratings, days - joined) > 1:
        span = 1 + int((days - joined - 2) * random.random() ** 3)
        more = min(1 + int(random.lognormal(*_MORE_VISITS)), span, ratings - 1)
        after = np.append(after, 1 + np.sort(random.choice(span, more, replace=False)))
    shares = random.lognormal(0.0, 1.2, len(after))
    shares[0] *= _FIRST * np.sqrt(max(1, len(after) - 1))
    sizes = 1 + random.multinomial(ratings - len(after), shares / shares.sum())
    begins = _START + _DAY * (joined + after + random.uniform(0.1, 0.7, len(after)))
    steps = random.exponential(1.0, ratings) * np.repeat(
        np.minimum(_SECONDS, _LONGEST / sizes), sizes
    )
    passed = np.cumsum(steps)
    within = passed - np.repeat(passed[np.cumsum(sizes) - sizes], sizes)
    return sizes, (np.repeat(begins, sizes) + within).astype(np.int64)

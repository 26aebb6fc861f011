"""When generated users rate: days, and how many ratings a day.

Four users of ten come back after their first day, most of them soon; a few come back for the rest
of the time. All of a visit is within one day of UTC. Shaped after MovieLens-1M (`world.py`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

DAY = 86_400
_START = 1_735_689_600  # 2025-01-01: when the generated time begins
_RETURNING = 0.41  # of the users
_MORE_VISITS = (1.4, 1.6)  # mean and deviation of the logarithm of their number
_FIRST = 0.6  # of the size of a first visit, to that of all others
_JOINING = 0.3  # of the time, in which users join
_SECONDS = 15.0  # between two ratings of a visit
_LONGEST = 20_000.0  # seconds of a visit


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
    begins = _START + DAY * (joined + after + random.uniform(0.1, 0.7, len(after)))
    steps = random.exponential(1.0, ratings) * np.repeat(
        np.minimum(_SECONDS, _LONGEST / sizes), sizes
    )
    passed = np.cumsum(steps)
    within = passed - np.repeat(passed[np.cumsum(sizes) - sizes], sizes)
    return sizes, (np.repeat(begins, sizes) + within).astype(np.int64)

"""The co-rating table by loops over the co-raters of each two items (Park and Acharya 2011)."""

from __future__ import annotations

import numpy as np


def table(ratings: dict[tuple[int, int], float], keys: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return counts and differences (n, n) of `ratings` by (user, item)."""
    users = sorted({user for user, _ in ratings})
    counts, differences = (np.zeros((len(keys), len(keys))) for _ in range(2))
    for j, left in enumerate(keys):
        for k, right in enumerate(keys):
            for user in users:
                if (user, left) in ratings and (user, right) in ratings:
                    counts[j, k] += 1
                    differences[j, k] += ratings[user, left] - ratings[user, right]
    return counts, differences

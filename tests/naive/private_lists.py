"""Scores of private lists from the lists of the devices themselves, term by term."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence


def scores(
    lists: Mapping[int, Sequence[int]],
    asker: int,
    among: Sequence[int],
    length: int,
    damping: float,
    cap: float,
) -> list[float]:
    """Return f of each item of `among`; lists: the items of each device, oldest first."""
    held = {device: set(items) for device, items in lists.items()}

    def raters(*items: int) -> int:
        return sum(all(item in each for item in items) for each in held.values())

    history = list(lists.get(asker, ()))[-length:]
    found = []
    for j in among:
        total = 0.0
        for k in history:
            if k != j:
                norms = (raters(j) + damping) * (raters(k) + damping)
                similar = raters(j, k) / math.sqrt(norms) if norms else 0.0
                total += min(similar, cap) / cap
        found.append(total)
    return found

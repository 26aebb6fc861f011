"""Drawing from counts, the obvious way: subtract counts from the word until it is used up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray


def sample(
    counts: Sequence[Sequence[int]], inputs: Iterable[int], words: Iterable[int]
) -> NDArray[np.uint8]:
    reports = []
    for v, word in zip(inputs, words, strict=True):
        left, z = int(word), 0
        while left >= counts[int(v)][z]:
            left -= counts[int(v)][z]
            z += 1
        reports.append(z)
    return np.array(reports, np.uint8)

"""Which head items occur together on devices: second moments, as derivations take them.

    pairs[i, j] = sum over devices of x_i x_j       x = 1 liked .. RATED not liked, 0 not there

scaled so that pairs[i, j] / min(exposures[i], exposures[j]) estimates the mean of x_i x_j although
some reports are held out.

Two feeds fill them. Where presence is public, x_i is RATED + (1 - RATED) P for an item that the
device has rated, P the posterior probability that it likes the item. Where presence is protected,
x_i is the positive report itself, 0 or 1, and `channel` debiases it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

WEIGHT_ONE = 15  # the integer weight of a certain like
RATED = 0.2  # x of a rated item that is not liked


class PairCounts(NamedTuple):
    """Moments of n head items at a cut; copies, which another thread may read.

    keys (n,): the items. pairs (n, n): symmetric second moments with any diagonal. squares (n,):
    the sum of x_i^2. sums (n,): the sum of x_i. exposures (n,): devices with a list, or reports on
    the item where presence is protected. reports (n,): reports other than "missing", whatever they
    say. between (n, n): pairs [later, earlier] of all reports of two visits that follow each other;
    within (n, n): decayed pairs of single reports of one visit; each None where none was counted.
    recent (n,): decayed reports, recent_total: of all items, those outside the head, too; total:
    without decay. devices: those with a list. channel: (P(positive | positive), P(positive | not
    positive)) where presence is protected, else None.
    """

    keys: NDArray[np.uint64]
    pairs: NDArray[np.float32]
    squares: NDArray[np.float32]
    sums: NDArray[np.float32]
    exposures: NDArray[np.float32]
    reports: NDArray[np.float32]
    between: NDArray[np.float32] | None
    within: NDArray[np.float32] | None
    recent: NDArray[np.float32]
    recent_total: float
    total: float
    devices: float
    channel: tuple[float, float] | None
    cut: int


def likes_of(counts: PairCounts) -> NDArray[np.float32]:
    """Return the expected likes among the reports of each item (n,), where presence is public."""
    likes = (counts.sums - np.float32(RATED) * counts.reports) / np.float32(1 - RATED)
    return np.clip(likes, 0, counts.reports)


def report_variance(channel: tuple[float, float]) -> float:
    """Return the variance that the noise of a channel, as in `PairCounts`, leaves in a debiased
    report of an item that is not positive."""
    positive, false = channel
    return false * (1 - false) / (positive - false) ** 2

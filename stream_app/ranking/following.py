"""What tends to follow an item, within a visit and at the next one.

    F_ij = O[j, i] / ((n_i + PRIOR) ((n_j + PRIOR) / U)^TARGET_POWER)

O[j, i]: decayed count of "i, and soon after it j" between single ratings of a visit, or count of
"i in a visit, j in the one after it", liked or not; n_i: how often i is reported, U: devices.
O[j, i] / n_i is how often j follows i; the power of n_j keeps what follows everything from every
list. Powers of (n_i, n_j) on splits inside the training part of ML-1M and ML-100K: 1 and .3 give
nDCG@10 .185, .181; .5 and .5 .176, .173; 1 and 0 .184, .175; .3 and 1 .112, .112.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.ranking.pair_counts import PairCounts

PRIOR = 20.0
TARGET_POWER = 0.3
FOLLOWS_A_ROW = 200  # 100 cost .006 of nDCG@10 on ML-1M
VISIT_FOLLOWS_A_ROW = 60


class FollowScales(NamedTuple):
    """What a count is multiplied by: earlier (n,) of the item of the history, later (n,)."""

    earlier: NDArray[np.float32]
    later: NDArray[np.float32]


def follow_scales(counts: PairCounts) -> FollowScales:
    """Return the scales of both tables."""
    reports = counts.reports + np.float32(PRIOR)
    devices = np.float32(max(float(counts.exposures.max(initial=0)), 1.0))
    later = (reports / devices) ** np.float32(-TARGET_POWER)
    return FollowScales((1 / reports).astype(np.float32), later.astype(np.float32))


def following(
    counted: NDArray[np.float32] | None, scales: FollowScales
) -> NDArray[np.float32] | None:
    """Return (n, n), row = item of a history, column = what tends to follow; None where nothing is
    `counted` (n, n), row = the later item."""
    if counted is None:
        return None
    table = (counted.T * scales.later[None, :] * scales.earlier[:, None]).astype(np.float32)
    np.fill_diagonal(table, 0)
    return table

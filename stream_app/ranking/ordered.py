"""What tends to follow an item, from pairs in arrival order.

    score_i = sum over the history j of  O[i, j] / ((S_ii + 20) (S_jj + 20)^.3)

O[i, j]: decayed count of "j, and soon after it i"; S_ii: how often i occurs at all. No inversion:
an item that follows everything is divided by its own count.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.ranking.pair_counts import PairCounts

PRIOR = 20.0
HISTORY_POWER = 0.3


def following(counts: PairCounts) -> NDArray[np.float32] | None:
    """Return (n, n), row = item of a history, column = what tends to follow; None without order."""
    if counts.ordered is None:
        return None
    later = 1 / (counts.squares + np.float32(PRIOR))
    earlier = 1 / (counts.squares + np.float32(PRIOR)) ** np.float32(HISTORY_POWER)
    table = counts.ordered.T * later[None, :] * earlier[:, None]
    np.fill_diagonal(table, 0)
    return table.astype(np.float32)

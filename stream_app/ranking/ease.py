"""Item-to-item weights in closed form (Steck 2019, "Embarrassingly Shallow Autoencoders", eq. 8).

    P = (G + ridge I)^-1        B_ij = -P_ij / P_jj, B_jj = 0        score_j = sum_i x_i B_ij

G (n, n): second moments of what devices have (sums over devices, not means). Where presence is
protected G is debiased: the product of two reports of one device is unbiased, because their noises
are independent, and the diagonal comes from the rates, because a report times itself is the report.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.ranking.pair_counts import PairCounts

RIDGE_A_DEVICE = 0.2
LEAST_RIDGE = 20.0
LINKS_A_ROW = 100


def moments(counts: PairCounts) -> NDArray[np.float32]:
    """Return the unbiased second moments (n, n) of the true items, their diagonal set."""
    pairs = np.array(counts.pairs, np.float32)
    if counts.channel is None:
        np.fill_diagonal(pairs, counts.squares)
        return pairs
    positive, false = counts.channel
    span = positive - false
    sums, exposures = counts.sums, counts.exposures
    together = np.minimum(exposures[:, None], exposures[None, :])
    pairs -= np.float32(false) * (sums[:, None] + sums[None, :])
    pairs += np.float32(false**2) * together
    pairs /= np.float32(span**2)
    np.fill_diagonal(pairs, np.maximum((sums - false * exposures) / span, 0))
    return pairs


def ridge(counts: PairCounts) -> float:
    """Return the ridge for this number of devices."""
    devices = float(counts.exposures.max(initial=0))
    return max(LEAST_RIDGE, RIDGE_A_DEVICE * devices)


def inverse(G: NDArray[np.float32], ridge: float) -> NDArray[np.float32]:
    """Return (G + ridge I)^-1; the ridge is doubled until the sum is positive definite, which
    noised moments need not be."""
    size = len(G)
    while True:
        sum_ = G + np.float32(ridge) * np.eye(size, dtype=np.float32)
        try:
            np.linalg.cholesky(sum_)
        except np.linalg.LinAlgError:
            ridge *= 2
            continue
        return np.linalg.inv(sum_).astype(np.float32)


def weights(G: NDArray[np.float32], ridge: float) -> NDArray[np.float32]:
    """Return B (n, n): row i holds what item i of a history adds to every other item."""
    P = inverse(G, ridge)
    B: NDArray[np.float32] = P / -np.diag(P)[None, :]
    np.fill_diagonal(B, 0)
    return B


def prune(
    table: NDArray[np.float32], most: int = LINKS_A_ROW
) -> tuple[NDArray[np.uint16], NDArray[np.float32]]:
    """Return (targets, weights), each (n, min(most, n)): the entries of every row of `table` that
    are largest in absolute value, ordered by target."""
    width = min(most, table.shape[1])
    if not width:
        return np.zeros((len(table), 0), np.uint16), np.zeros((len(table), 0), np.float32)
    kept = np.sort(np.argpartition(-np.abs(table), width - 1, axis=1)[:, :width], axis=1)
    return kept.astype(np.uint16), np.take_along_axis(table, kept, axis=1).astype(np.float32)

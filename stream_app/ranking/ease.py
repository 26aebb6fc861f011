"""Item-to-item weights in closed form (Steck 2019, "Embarrassingly Shallow Autoencoders", eq. 8).

    P = (G + ridge I)^-1        B_ij = -P_ij / P_jj, B_jj = 0        score_j = sum_i x_i B_ij

G (n, n): second moments of what devices have (sums over devices, not means). Where presence is
protected G is debiased: the product of two reports of one device is unbiased, because their noises
are independent, and the diagonal comes from the rates, because a report times itself is the report.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.ranking.pair_counts import PairCounts, report_variance

# Between the best for much noise and for little: nDCG@10 of a device's lists on ML-100K, packed
# messages of rr:5:1, for 12 and 20: the last fifth of the stream .141, .171, the last visits .156,
# .163, each user's last fifth .173, .169; of rr:5:2 .162, .171, .167, .163, .173, .166.
RIDGE = 16.0
# With both, the ridge is the best for noised likes of ML-1M, 300 and 1,000 items: 2, .5 and .2
# times the number of devices at epsilon 1, 2 and 4.
LIKES_RIDGE, NOISE_RIDGE = 12.0, 9.0
LINKS_A_ROW = 100
_WHOLE = 500


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
    """Return the ridge for these counts: as many standard errors as sampling and noise leave.

        sqrt(devices) RIDGE x^2,   where presence is protected
        sqrt(devices) (LIKES_RIDGE + NOISE_RIDGE s2 sqrt n)

    A pair count has a standard error that grows with the root of the number of devices, x^2 is the
    scale of one term; noise of variance s2 in every report adds a matrix whose largest eigenvalue
    is 2 s2 sqrt(devices n) (Wigner 1958).
    """
    devices = float(counts.exposures.max(initial=0))
    total, squared = float(counts.sums.sum()), float(counts.squares.sum())
    if counts.channel is None:
        return float(devices**0.5 * RIDGE * (squared / total) ** 2) if total > 0 else RIDGE
    noise = report_variance(counts.channel) * len(counts.keys) ** 0.5
    return float(devices**0.5 * (LIKES_RIDGE + NOISE_RIDGE * noise))


def inverse(G: NDArray[np.float32], ridge: float) -> NDArray[np.float32]:
    """Return (G + ridge I)^-1; the ridge is doubled until the sum is positive definite, which
    noised moments need not be."""
    while True:
        try:
            return _inverse(G + np.float32(ridge) * np.eye(len(G), dtype=np.float32))
        except np.linalg.LinAlgError:
            ridge = max(2 * ridge, 1.0)


def _inverse(A: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the inverse of a symmetric matrix, by its Schur complement in half the time of one
    for any matrix; LinAlgError unless it is positive definite."""
    half = len(A) // 2
    if half < _WHOLE:
        np.linalg.cholesky(A)
        return np.linalg.inv(A)
    first = _inverse(A[:half, :half])
    across = first @ A[:half, half:]
    second = _inverse(A[half:, half:] - A[half:, :half] @ across)
    corner = -across @ second
    first -= corner @ across.T
    return np.block([[first, corner], [corner.T, second]])


def weights(G: NDArray[np.float32], ridge: float) -> NDArray[np.float32]:
    """Return B (n, n): row i holds what item i of a history adds to every other item."""
    return weights_from(inverse(G, ridge))


def weights_from(P: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return B of P = (G + ridge I)^-1."""
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

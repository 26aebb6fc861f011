"""Generated devices with taste, and their pair counts, for the tests of ranking."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.ranking.pair_counts import PairCounts


def devices(
    random: np.random.Generator, users: int = 400, items: int = 60, clusters: int = 4
) -> NDArray[np.float32]:
    """Return (users, items) 0 or 1: each user likes items of one cluster and a few others."""
    cluster = np.arange(items) % clusters
    mine = random.integers(clusters, size=users)
    share = np.where(cluster[None, :] == mine[:, None], 0.5, 0.05)
    return (random.random((users, items)) < share).astype(np.float32)


def public(
    x: NDArray[np.float32],
    between: NDArray[np.float32] | None = None,
    within: NDArray[np.float32] | None = None,
) -> PairCounts:
    """Return the counts of devices (u, n) whose presence is public; nothing is recent."""
    users, items = x.shape
    return PairCounts(
        keys=np.arange(1, items + 1, dtype=np.uint64),
        pairs=(x.T @ x).astype(np.float32),
        squares=(x * x).sum(axis=0).astype(np.float32),
        sums=x.sum(axis=0).astype(np.float32),
        exposures=np.full(items, users, np.float32),
        reports=(x > 0).sum(0).astype(np.float32),
        between=between,
        within=within,
        recent=np.zeros(items, np.float32),
        recent_total=0.0,
        total=float((x > 0).sum()),
        devices=float(users),
        channel=None,
        cut=7,
    )


def protected(random: np.random.Generator, x: NDArray[np.float32], epsilon: float) -> PairCounts:
    """Return the counts of noised bits of the devices (u, n)."""
    positive = np.exp(epsilon) / (1 + np.exp(epsilon))
    flipped = random.random(x.shape) >= positive
    reports = np.where(flipped, 1 - x, x).astype(np.float32)
    counts = public(reports)
    return counts._replace(channel=(float(positive), float(1 - positive)))

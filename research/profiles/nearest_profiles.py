"""Neighbours over released profiles: users with similar items, and how many of them are true.

    similarity   cos(a, b) = |A and B| / sqrt(|A| |B|)             (Balu 2016, section 2.2.2.2)
    recall       share of the 10 nearest by the cosine of the TRUE profiles that are among the 10
                 nearest by the released ones, mean over users (Balu 2016, section 3.5.4,
                 figure 3.6)

|A and B| is the mechanism's own estimate; |A| its estimate, shrunken to the mean of all users by
the variance of its noise (empirical Bayes). Every item a user has rated is in the profile, whatever
the rating (Balu 2016, section 3.5.1). Noise comes from a seed, and nothing is published.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from research.profiles.profile_mechanism import ProfileMechanism, posterior_sizes
from stream_app.privacy.randomness import SeededSource

NEAREST = 10
_TINY = 1e-12


def recall(
    users: NDArray[np.uint64],
    items: NDArray[np.uint64],
    mechanism: ProfileMechanism,
    *,
    queries: int = 1000,
    seed: int = 0,
) -> float:
    """Return the recall of at most `queries` users; the columns (n,) are one rating a row, in any
    order.

    ValueError for fewer than 12 users, unequal columns, or a mechanism without estimates.
    """
    profiles, catalogue = profiles_of(users, items)
    if len(profiles) < NEAREST + 2:
        raise ValueError(f"{len(profiles)} users: at least {NEAREST + 2} are needed to evaluate")
    asked = np.sort(np.random.default_rng(seed).permutation(len(profiles))[:queries])
    source = SeededSource(seed)
    released = np.stack([mechanism.release(profile, source) for profile in profiles])
    found = nearest(mechanism, released, asked, len(catalogue))
    true = _clear_nearest(_matrix(profiles, catalogue), asked)
    return float((true[:, :, None] == found[:, None, :]).any(axis=2).mean())


def profiles_of(
    users: NDArray[np.uint64], items: NDArray[np.uint64]
) -> tuple[list[NDArray[np.uint64]], NDArray[np.uint64]]:
    """Return each user's distinct items, in the order of the users' keys, and the catalogue."""
    if len(users) != len(items):
        raise ValueError(f"{len(users)} users and {len(items)} items: a rating has one of each")
    names, user_rows = np.unique(users, return_inverse=True)
    catalogue, item_rows = np.unique(items, return_inverse=True)
    cells = np.unique(user_rows.astype(np.int64) * len(catalogue) + item_rows)
    starts = np.searchsorted(cells, np.arange(1, len(names)) * len(catalogue))
    return np.split(catalogue[cells % len(catalogue)], starts), catalogue


def nearest(
    mechanism: ProfileMechanism,
    released: NDArray[np.uint8],
    asked: NDArray[np.int64],
    catalogue: int,
) -> NDArray[np.int64]:
    """Return the rows of the 10 most similar others of each asked row of released profiles (m,
    bytes), best first, equal ones by their number; `catalogue`: the number of items."""
    if mechanism.no_estimate:
        raise ValueError(f"{mechanism.id}: no neighbour can be found, {mechanism.no_estimate}")
    roots = np.sqrt(posterior(mechanism, released, catalogue))
    near = mechanism.overlaps(released[asked], released)
    near /= np.maximum(roots[asked, None] * roots, _TINY)
    near[np.arange(len(asked)), asked] = -np.inf
    best = np.argpartition(-near, NEAREST - 1, axis=1)[:, :NEAREST]
    order = np.lexsort((best, -np.take_along_axis(near, best, axis=1)), axis=1)
    return np.take_along_axis(best, order, axis=1)


def posterior(
    mechanism: ProfileMechanism, released: NDArray[np.uint8], catalogue: int
) -> NDArray[np.float64]:
    """Return the posterior mean of the size of each released profile, (m,)."""
    sizes = mechanism.sizes(mechanism.coordinates(released), catalogue)
    mean = float(sizes.mean())
    true_variance = max(0.0, float(sizes.var()) - mechanism.size_variance(mean))
    return posterior_sizes(mechanism, sizes, mean, true_variance**0.5, catalogue)


def _matrix(
    profiles: Sequence[NDArray[np.uint64]], catalogue: NDArray[np.uint64]
) -> NDArray[np.float32]:
    found = np.zeros((len(profiles), len(catalogue)), np.float32)
    for row, profile in enumerate(profiles):
        found[row, np.searchsorted(catalogue, profile)] = 1
    return found


def _clear_nearest(matrix: NDArray[np.float32], asked: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the nearest others by the cosine of the rows, (m, k); equal ones by their number."""
    roots = np.sqrt(matrix.sum(axis=1, dtype=np.float32))
    near = matrix[asked] @ matrix.T / np.maximum(roots[asked, None] * roots, _TINY)
    near[np.arange(len(asked)), asked] = -np.inf
    return np.argsort(-near, axis=1, kind="stable")[:, :NEAREST]

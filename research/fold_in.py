"""Predictions of devices that correct a learned item side with their own clean ratings.

    (u, p) = argmin  sum_i (r_i - m_i - u - p . q_i)^2 + BIAS u^2 + FACTORS |p|^2

over the ratings r_i that a device has; m_i, q_i: public mean and vector of an item, q in units of
their root mean square. BIAS and FACTORS are the pair of a grid with the least error on ratings that
are neither learned nor tested; the choice is not accounted. Nothing of it leaves a device.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.evaluation.results import rms
from stream_app.models.factorization.learner import Keys, Learner

_RIDGES = tuple(product((2.0, 5.0, 10.0), (1.0, 3.0, 10.0, 30.0, 100.0)))
_SMALLEST = 1e-9

Rows = NDArray[np.int64]
Floats = NDArray[np.float64]


class OwnRatings(NamedTuple):
    """Ratings (n,) of everybody on 1 .. 5, and the rows of the three parts of a split."""

    users: Keys
    items: Keys
    stars: Floats
    learned: Rows
    tuned: Rows
    tested: Rows


def folded_in(own: OwnRatings, learner: Learner) -> Floats:
    """Return the predicted stars (t,) of the tested rows, after each device has folded in its own
    ratings of the learned part.
    """
    keys, places = np.unique(own.items, return_inverse=True)
    vectors, biases = learner.items(keys)
    scale = max(float(np.sqrt((vectors.astype(np.float64) ** 2).sum(1).mean())), _SMALLEST)
    features = np.column_stack((np.ones(len(keys)), vectors / scale))[places]
    base = (learner.mean + biases.astype(np.float64))[places]
    users = np.unique(own.users, return_inverse=True)[1]
    grams, sums = _sums(users, features, own.stars - base, own.learned)
    best, found = np.inf, np.empty(0)
    for bias, factors in _RIDGES:
        ridge = np.diag([bias, *[factors] * (features.shape[1] - 1)])
        solved = np.linalg.solve(grams + ridge, sums[..., None])[..., 0]
        tuned, tested = (
            np.clip(base[rows] + (features[rows] * solved[users[rows]]).sum(1), 1, 5)
            for rows in (own.tuned, own.tested)
        )
        error = rms(tuned - own.stars[own.tuned])
        if error < best:
            best, found = error, tested
    return found


def _sums(
    users: NDArray[np.intp], features: Floats, residual: Floats, learned: Rows
) -> tuple[Floats, Floats]:
    """Return X'X (people, f, f) and X'y (people, f) of the learned rows of each user."""
    people, width = int(users.max()) + 1, features.shape[1]
    order = learned[np.argsort(users[learned], kind="stable")]
    ends = np.searchsorted(users[order], np.arange(people + 1))
    grams, sums = np.zeros((people, width, width)), np.zeros((people, width))
    for user in range(people):
        rows = order[ends[user] : ends[user + 1]]
        grams[user] = features[rows].T @ features[rows]
        sums[user] = features[rows].T @ residual[rows]
    return grams, sums

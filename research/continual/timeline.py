"""Everybody's ratings in time order, and what devices predict before each.

A rating is predicted from the public side of that moment and from all ratings that its device has
by then, by the fold-in of `campaigns/stars/fold_in.py`; then the device has it too. An item that is
rated again counts as rated last.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.campaigns.learning.stars_learning import UNKNOWN_BIAS
from stream_app.campaigns.rated_items import RatedItems
from stream_app.campaigns.stars.fold_in import BIAS_RIDGE, FEATURE_RIDGE, MEAN, TASTE_RIDGE
from stream_app.campaigns.stars.side import StarsSide
from stream_app.evaluation.results import EvaluationData

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]


class Timeline:
    """The ratings (n,) of a file over its `most` most rated items, which are public.

    scope: keys of these items. users: (n,) numbers; places: (n,) in the scope, -1 outside; stars:
    (n,) on 1 .. 5.
    """

    def __init__(self, data: EvaluationData, most: int) -> None:
        keys, which, counts = np.unique(data.items, return_inverse=True, return_counts=True)
        ranked = np.argsort(-counts, kind="stable")[:most]
        place = np.full(len(keys), -1, np.intp)
        place[ranked] = np.arange(len(ranked))
        self.scope: NDArray[np.uint64] = keys[ranked]
        self.places: Rows = place[which]
        self.users: Rows = np.unique(data.users, return_inverse=True)[1]
        truth = data.truth
        width = truth.highest - truth.lowest
        self.stars: Floats = 1 + 4 * (truth.ratings - truth.lowest) / width
        self._by_user = np.argsort(self.users, kind="stable")
        bounds = np.searchsorted(self.users[self._by_user], np.arange(self.people + 1))
        self._bounds = bounds
        self._joined = self._by_user[bounds[:-1]]
        # The rows of the same person and item before and after each; -1 and n where none is.
        pairs = np.lexsort((self.places, self.users))  # by person, item, then time
        same = (np.diff(self.users[pairs]) == 0) & (np.diff(self.places[pairs]) == 0)
        self._before, self._after = np.full(len(self), -1), np.full(len(self), len(self))
        self._before[pairs[1:][same]] = pairs[:-1][same]
        self._after[pairs[:-1][same]] = pairs[1:][same]

    def __len__(self) -> int:
        return len(self.users)

    @property
    def people(self) -> int:
        """How many people rate anything."""
        return int(self.users.max()) + 1

    def joined(self, first: int, after: int) -> list[int]:
        """Return the people whose first rating is one of the rows first .. after - 1."""
        found = (self._joined >= first) & (self._joined < after)
        return [int(user) for user in np.flatnonzero(found)]

    def own(self, user: int, until: int) -> RatedItems:
        """Return what a device has before row `until`."""
        rows = self._rows(user, until)
        rows = rows[(self.places[rows] >= 0) & (self._after[rows] >= until)]
        stars = self.stars[rows]
        return RatedItems(self.places[rows], stars, stars >= 4)

    def _rows(self, user: int, until: int) -> Rows:
        rows = self._by_user[self._bounds[user] : self._bounds[user + 1]]
        return rows[: int(np.searchsorted(rows, until))]

    def predicted(self, side: StarsSide, first: int, after: int) -> Floats:
        """Return what devices expect of the rows first .. after - 1 under one public side, 1 .. 5.

        Each is the fold-in of `own` up to its row: sums of the ridge regression grow row by row,
        and all their systems are solved at once.
        """
        found = np.empty(after - first)
        factors, features = side.vectors.shape[1], side.features.shape[1]
        ridge = np.diag([BIAS_RIDGE, *[TASTE_RIDGE] * factors, *[FEATURE_RIDGE] * features])
        known = np.hstack([np.ones((len(side.biases), 1)), side.vectors, side.features])
        known = np.vstack([known, np.eye(1, known.shape[1])])  # the last: an item outside
        expected = np.append(MEAN + side.biases, MEAN + UNKNOWN_BIAS)
        for user in np.unique(self.users[first:after]).tolist():
            rows = self._rows(user, after)
            begun = int(np.searchsorted(rows, first))
            x, public = known[self.places[rows]], expected[self.places[rows]]
            weights, targets = self._targets(rows, public)
            gram, right = weights[:, None] * x, targets[:, None] * x
            grams = np.cumsum(gram[begun:, :, None] * x[begun:, None, :], axis=0)
            rights = np.cumsum(right[begun:], axis=0)
            grams = np.concatenate([np.zeros((1, *ridge.shape)), grams[:-1]])
            rights = np.concatenate([np.zeros((1, len(ridge))), rights[:-1]])
            grams += ridge + gram[:begun].T @ x[:begun]
            rights += right[:begun].sum(axis=0)
            person = np.linalg.solve(grams, rights[:, :, None])[:, :, 0]
            found[rows[begun:] - first] = public[begun:] + np.sum(x[begun:] * person, axis=1)
        return np.clip(found, 1.0, 5.0)

    def _targets(self, rows: Rows, public: Floats) -> tuple[Floats, Floats]:
        """Return what each row adds to the regression: 1 and its residual; a rating that replaces
        one adds the change alone, an item outside the scope nothing."""
        before, inside = self._before[rows], self.places[rows] >= 0
        replaced = np.where(before >= 0, self.stars[before], public)
        weights = np.where(inside & (before < 0), 1.0, 0.0)
        return weights, np.where(inside, self.stars[rows] - replaced, 0.0)

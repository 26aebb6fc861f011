"""Slope One and cosine as learners, one rating after the other: to measure their predictions.

    slope-one          f_j = 1/m sum_k (r_k + D_jk / c_jk)           (Park and Acharya 2011, eq. 6)
    damped-slope-one   the same damped towards the means of the items, and clamped
    cosine             f_j = M_j + sum_k s_jk (r_k - M_k) / sum_k s_jk  (after Sarwar et al. 2001)

`research.similarity` has the formulas, and computes the same from the table of a whole file. A
rating teaches its pairs with all that its user rated before, so a stream of ratings leaves that
table. A noised rating counts with its posterior mean (`posterior.py`).

A prediction is no inner product of vectors of a fixed length, the profiles are unbounded, and
nothing is forgotten. An item beyond the first 8,192 has no pairs; without them a prediction is the
mean of the item, or of the user.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from research.similarity.slope_one import MIDDLE
from research.simple_learner import Entity, SimpleLearner
from stream_app.kernels.factorization.posterior import (
    HIGHEST,
    INSIDE_HIGH,
    INSIDE_LOW,
    LOWEST,
)
from stream_app.models.baselines.learners import LEARNERS
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.learner import LearnerSpec

MOST_ITEMS = 8_192
DAMPING, LEAST_PROFILE = 20.0, 5
PRIOR_VARIANCE = 1.0  # of a rating around its prediction, before its report
_FIRST_ITEMS = 256
_MEAN_WEIGHT = 5.0
_COUNT, _SUM = 0, 1  # places in `_items` and in the last axis of `_pairs`

Values = NDArray[np.float64]


class _Profile:
    """What a user has rated: slots and values, in order."""

    def __init__(self) -> None:
        self._slots = np.zeros(8, np.int64)
        self._values = np.zeros(8)
        self._count = 0

    @property
    def slots(self) -> NDArray[np.int64]:
        return self._slots[: self._count]

    @property
    def values(self) -> Values:
        return self._values[: self._count]

    def add(self, slot: int, value: float) -> None:
        if self._count == len(self._slots):
            self._slots = np.resize(self._slots, 2 * self._count)
            self._values = np.resize(self._values, 2 * self._count)
        self._slots[self._count], self._values[self._count] = slot, value
        self._count += 1


_NOTHING = _Profile()


class CoRatedLearner(SimpleLearner):
    """Counts and sums of differences of each two items over their co-raters."""

    def __init__(self, channels: Channels, spec: LearnerSpec) -> None:
        parameters = replace(spec.parameters, prior_variance=PRIOR_VARIANCE)
        super().__init__(channels, replace(spec, parameters=parameters))
        self._places: dict[int, int] = {}
        self._profiles: dict[int, _Profile] = {}
        self._items = np.zeros((_FIRST_ITEMS, 2))  # raters n_j, sum of their ratings
        self._pairs = np.zeros((_FIRST_ITEMS, _FIRST_ITEMS, 2), np.float32)  # c_jk, D_jk
        self._predicted = MIDDLE

    @abstractmethod
    def of_pairs(self, slot: int, slots: NDArray[np.int64], values: Values) -> float:
        """Return f_j of the item at `slot` for a user with `values` (m,) of the items at `slots`
        (m,), m > 0."""

    def user(self, key: int) -> Entity:  # noqa: ARG002 (users have no vector)
        """Return zeros: users have neither vector nor bias."""
        return self.zero, 0.0

    def item(self, key: int) -> Entity:
        """Return zeros, and what the item's mean is above the overall mean."""
        slot = self._places.get(key, -1)
        return self.zero, float(self.means(np.array([slot]))[0]) - self.mean if slot >= 0 else 0.0

    def learn_one(self, user: int, item: int, error: float) -> None:
        """Count the rating with all that its user rated before; another rating of one item by one
        user changes nothing."""
        inside = min(max(self._predicted, INSIDE_LOW), INSIDE_HIGH)
        value = min(max(inside + error, LOWEST), HIGHEST)
        slot = self._place(item)
        profile = self._profiles.setdefault(user, _Profile())
        if slot < 0 or (profile.slots == slot).any():
            return
        slots = profile.slots
        added = np.ones((len(slots), 2), np.float32)
        added[:, _SUM] = value - profile.values
        self._pairs[slot, slots] += added
        added[:, _SUM] *= -1
        self._pairs[slots, slot] += added
        self._items[slot] += 1.0, value
        profile.add(slot, value)

    def means(self, slots: NDArray[np.int64]) -> Values:
        """Return the mean of each item, drawn to the overall mean with the weight of five."""
        counts, sums = self._items[slots].T
        found: Values = (sums + _MEAN_WEIGHT * self.mean) / (counts + _MEAN_WEIGHT)
        return found

    def _estimate(self, user: int, item: int) -> float:
        profile, slot = self._profiles.get(user, _NOTHING), self._places.get(item, -1)
        if not len(profile.slots):
            found = self.mean + self.item(item)[1]
        elif slot < 0:
            values = profile.values
            weight = len(values) + _MEAN_WEIGHT
            found = float((values.sum() + _MEAN_WEIGHT * self.mean) / weight)
        else:
            found = self.of_pairs(slot, profile.slots, profile.values)
        self._predicted = found
        return found

    def _place(self, item: int) -> int:
        """Return the slot of an item, a new one where there is room, or -1."""
        slot = self._places.get(item, -1)
        if slot >= 0 or len(self._places) >= MOST_ITEMS:
            return slot
        slot = len(self._places)
        if slot == len(self._items):
            room = ((0, slot), (0, slot), (0, 0))
            self._pairs, self._items = np.pad(self._pairs, room), np.pad(self._items, room[1:])
        self._places[item] = slot
        return slot


class SlopeOne(CoRatedLearner):
    """Slope One as printed."""

    name = "slope-one"

    def of_pairs(self, slot: int, slots: NDArray[np.int64], values: Values) -> float:
        """Return the mean of the ratings and their deviations."""
        counts, sums = self._pairs[slot, slots].T
        # Without co-raters the sum is 0, too.
        return float(values.mean() + (sums / np.maximum(counts, 1)).mean(dtype=np.float64))


class DampedSlopeOne(CoRatedLearner):
    """Slope One, damped towards the means with beta = 20 and clamped, T = 5."""

    name = "damped-slope-one"

    def of_pairs(self, slot: int, slots: NDArray[np.int64], values: Values) -> float:
        """Return the clamped form of the terms."""
        counts, sums = self._pairs[slot, slots].T
        raters, totals = self._items[slots].T
        own_raters, own_total = self._items[slot]
        means = (totals + DAMPING * MIDDLE) / (raters + DAMPING)
        mean = (own_total + DAMPING * MIDDLE) / (own_raters + DAMPING)
        deviations = (sums + DAMPING * (mean - means)) / (counts + DAMPING)
        terms = np.clip(values + deviations, LOWEST, HIGHEST) - MIDDLE
        return MIDDLE + float(terms.sum()) / max(len(slots), LEAST_PROFILE)


class Cosine(CoRatedLearner):
    """Cosine between items, by who rated them."""

    name = "cosine"

    def of_pairs(self, slot: int, slots: NDArray[np.int64], values: Values) -> float:
        """Return the item's mean, moved by what similar items were above theirs."""
        mean = float(self.means(np.array([slot]))[0])
        counts = self._pairs[slot, slots, _COUNT]
        weights = counts / np.sqrt(np.maximum(self._items[slot, _COUNT], 1) * self._items[slots, 0])
        total = float(weights.sum())
        if not total > 0:
            return mean
        return mean + float((weights * (values - self.means(slots))).sum()) / total


CO_RATED: dict[str, Callable[[Channels, LearnerSpec], CoRatedLearner]] = {
    made.name: made for made in (SlopeOne, DampedSlopeOne, Cosine)
}


def build(model: str, channels: Channels, spec: LearnerSpec) -> CoRatedLearner:
    """Return a fresh learner of the table; ValueError for an unknown name or unusable sizes, and
    for mechanisms that hide presence, which co-occurrence models cannot use."""
    if model not in CO_RATED:
        raise ValueError(f"model {model!r}: must be one of {', '.join((*LEARNERS, *CO_RATED))}")
    if channels.presence.any():
        raise ValueError(
            f"model {model}: counts who rated what, which this mechanism hides; take a mechanism "
            "with public presence, as rr or partition"
        )
    return CO_RATED[model](channels, spec)

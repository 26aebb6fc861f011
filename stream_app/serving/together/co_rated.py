"""Co-ratings made ready for queries: similar items, and lists by Slope One or cosine.

    cosine       f_j = mean of s_kj over the history
                 s_jk = c_jk / sqrt((n_j + beta) (n_k + beta))
    slope-one    f_j = mean of r_k + (D_jk + beta (M_j - M_k)) / (c_jk + beta)

The equations, their names and their sources: `ranking/similarity/`. Both forms are damped: of two
items that a few devices have in common little is known. Terms of Slope One are not clamped here:
debiased stars lie outside 1 .. 5, and from those of rr:5:2 the RMSE is .923 without and .961 with
it (a sixth of ML-1M's users, beta = 20). Derived beside the learning, from a copy of the state at a
cut; clear, so for what the server may know.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.ranking.scores import top_slots
from stream_app.ranking.similarity import COSINE, SLOPE_ONE, cosine, nearest, slope_one
from stream_app.ranking.similarity.table import CoRatingTable, slots_of

DAMPING = 20.0  # devices


class RatedItems(NamedTuple):
    """What a device has rated, oldest first: slots (m,), -1 for an item without one, and stars
    (m,)."""

    slots: NDArray[np.int64]
    stars: NDArray[np.float32]

    @property
    def known(self) -> bool:
        """Whether an item of it has a slot."""
        return bool((self.slots >= 0).any())


class CoRated:
    """n items of the head at cut `version`: similarities (n, n), and where lists are by Slope One
    the damped deviations (n, n)."""

    def __init__(self, table: CoRatingTable, method: str = COSINE) -> None:
        self.version, self.keys, self.method = table.version, table.keys, method
        self.similarities = cosine.similarities(table, DAMPING)
        by_stars = method == SLOPE_ONE
        self._deviations = slope_one.deviations(table, DAMPING) if by_stars else None
        self.ties = nearest.ties(self.keys)

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def memory_bytes(self) -> int:
        """Bytes held."""
        tables = (self.similarities, self._deviations, self.keys, self.ties)
        return sum(each.nbytes for each in tables if each is not None)

    def slots_of(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the slot of each item (m,), -1 for one without."""
        return slots_of(self.keys, keys)

    def rated(self, keys: NDArray[np.uint64], stars: NDArray[np.float32]) -> RatedItems:
        """Return ratings of items `keys` (m,), oldest first, as this table takes them."""
        return RatedItems(self.slots_of(keys), stars)

    def scores(self, rated: RatedItems) -> NDArray[np.float32]:
        """Return the scores (n,) by which lists are ranked, of Slope One stars; -inf for an item
        that no device has rated beside one of these, of which nothing is known."""
        together = cosine.scores(self.similarities, rated.slots)
        found = together
        if self._deviations is not None:
            found = slope_one.predict(self._deviations, rated.slots, rated.stars)
        return np.where(together > 0, found, np.float32(-np.inf))

    @property
    def predicts_stars(self) -> bool:
        """Whether scores are predicted ratings."""
        return self._deviations is not None

    def best(
        self, scores: NDArray[np.float32], count: int, allowed: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """Return the slots of the best `count` items that may be shown and of which something is
        known, best first."""
        return top_slots(scores, count, allowed & np.isfinite(scores), self.ties)

    def because(self, rated: RatedItems, listed: NDArray[np.int64]) -> tuple[int | None, ...]:
        """Return for each listed slot the key of the rated item that contributes most."""
        if self._deviations is None:
            parts = cosine.contributions(self.similarities, rated.slots, listed)
        else:
            ratings = rated.slots, rated.stars
            parts = slope_one.contributions(self._deviations, *ratings, listed)
        found = nearest.because(parts, rated.slots, self.ties)
        return tuple(int(self.keys[slot]) if slot >= 0 else None for slot in found)

    def near(self, slot: int) -> NDArray[np.int64]:
        """Return the slots of all items with a similarity to one above 0, most similar first."""
        return nearest.similar_to(self.similarities, slot, len(self), self.ties)

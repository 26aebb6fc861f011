"""Lists from damped scores: the ordered k best, released by integers, of a proved sensitivity.

    Slope One   other profile R / (beta + 1), own rating R / (T + 1)   (`similarity/slope_one.py`)
    cosine      other profile 1 / (beta + 1), own report 1 / (T + 1)   (`similarity/cosine.py`)
    released    the k best by `research/gumbel_top_k.py`; no score

The larger bound is the sensitivity, so one epsilon holds for an own rating and for any other user's
whole profile. Candidates must not depend on a rating: all items of the table, those the user has
rated included (own rating then costs the bound of any item), or, with `rated_left_out`, the others:
then which items are rated is not protected against a reader of the list, only their values and all
of everybody else. Every list of a user costs its epsilon again, and so does every list of another
user, which all of a person's data are in: n lists cost n epsilon.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from research.gumbel_top_k import GumbelTopK
from research.similarity import cosine, slope_one
from research.similarity.table import CoRatingTable
from stream_app.privacy.randomness import RandomSource

# A sum of m float32 terms of size 1, divided by m, is within m 2^-24 of its exact value (Higham
# 2002, section 4.2); the stars of Slope One are summed 16 at a time and stay below that too.
MOST_RATINGS = 4_096
ROUNDING = 2 * MOST_RATINGS * 2.0**-24  # twice: the terms have errors of their own


@dataclass(frozen=True)
class DampedLists:
    """Private lists of k items by damped Slope One or cosine.

    damping: beta; least_profile: T. Raises ValueError as `GumbelTopK` does.
    """

    method: str
    epsilon: Fraction
    k: int
    damping: float = 50.0
    least_profile: int = 20
    rated_left_out: bool = False

    def __post_init__(self) -> None:
        if self.method not in ("slope-one", "cosine"):
            raise ValueError(f"method {self.method!r}: choose slope-one or cosine")
        _ = self.selection

    @property
    def sensitivity(self) -> float:
        """How far an own rating or another user's whole profile moves any score, at most."""
        if self.method == "cosine":
            other = cosine.other_profile_bound(self.damping)
            own = cosine.own_report_bound(self.least_profile)
            either = cosine.own_report_bound_of_any_item(self.damping, self.least_profile)
        else:
            other = slope_one.other_profile_bound(self.damping)
            own = slope_one.own_rating_bound(self.least_profile)
            either = slope_one.own_rating_bound_of_any_item(self.damping, self.least_profile)
        return max(other, own if self.rated_left_out else either)

    @property
    def selection(self) -> GumbelTopK:
        """How the k are chosen."""
        low, high = (0.0, 1.0) if self.method == "cosine" else (slope_one.LOWEST, slope_one.HIGHEST)
        return GumbelTopK(self.k, self.epsilon, self.sensitivity, low, high, ROUNDING)

    def scores(
        self, table: CoRatingTable, slots: NDArray[np.integer], ratings: NDArray[np.floating]
    ) -> NDArray[np.float32]:
        """Return the damped score (n,) of every item of the table for a user.

        Raises ValueError for a profile longer than the bound of the rounding error covers.
        """
        if len(slots) > MOST_RATINGS:
            raise ValueError(f"{len(slots):,} ratings of a user: at most {MOST_RATINGS:,}")
        if self.method == "cosine":
            similar = cosine.similarities(table, self.damping)
            return cosine.scores(similar, slots, self.least_profile)
        moved = slope_one.deviations(table, self.damping)
        clipped = np.clip(ratings, slope_one.LOWEST, slope_one.HIGHEST)
        return slope_one.predict(moved, slots, clipped, self.least_profile)

    def release(
        self, scores: NDArray[np.floating], slots: NDArray[np.integer], source: RandomSource
    ) -> NDArray[np.int64]:
        """Return the slots (k,) of a private list, best first, from the scores (n,) of a user.

        slots: what the user has rated. Raises ValueError where fewer than k items can be chosen.
        """
        if not self.rated_left_out:
            return self.selection.release(scores, source)
        left = np.setdiff1d(np.arange(len(scores)), slots)
        return np.asarray(left[self.selection.release(scores[left], source)])

"""PRS: an item of another domain in place of each rated one (Guerraoui et al. 2017, Theorem 1).

    P(replacement of i = t) ~ e^(epsilon s_it / (2 Delta))

`PrivateReplacement` draws from ALL items of a public catalogue, those without a link at s = 0, so
that what can be drawn depends on no ratings. Delta is how far one person's whole record moves
any s: 2 for X-SIM and for every other similarity of -1 .. 1, and
`ranking.domains.adjusted_cosine.sensitivity` for a damped one. It costs epsilon for each replaced
item: c of them cost c epsilon.

`PrintedReplacement` is the printed mechanism. It draws from the items "with quantified X-SIM",
which others' ratings decide: a person who made the only path to an item shows in whether it can be
drawn at all. No epsilon covers that, so it carries no guarantee.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from research.gumbel_top_k import GumbelTopK, below, level_weights
from stream_app.privacy.privacy_map import Adjacency
from stream_app.privacy.randomness import RandomSource

WIDEST = 2.0  # the range of a similarity, -1 .. 1
PAPER = "paper: no guarantee"


@dataclass(frozen=True)
class PrivateReplacement:
    """Draws replacements; epsilon: of one replaced item, 0 is a uniform draw, inf the most similar.

    sensitivity: Delta, above 0 and at most 2. Raises ValueError for values out of range.
    """

    epsilon: float
    sensitivity: float = WIDEST

    def __post_init__(self) -> None:
        check_selection(self.epsilon, self.sensitivity)
        if 0 < self.epsilon < math.inf:
            self._levels  # noqa: B018 (raises for an epsilon that cannot be drawn)

    @property
    def adjacency(self) -> Adjacency:
        """What epsilon is about: all ratings of one person whose ratings made the similarities."""
        return Adjacency.USER if self.epsilon < math.inf else Adjacency.NOTHING

    @property
    def guarantee(self) -> str:
        """The guarantee in words."""
        if self.epsilon == math.inf:
            return "no guarantee: the most similar item"
        return f"{self.epsilon:g} for all ratings of another person, for each replaced item"

    def cost(self, replaced: int) -> float:
        """Return the epsilon of so many replaced items together."""
        return replaced * self.epsilon if replaced else 0.0

    def release(self, similarities: ArrayLike, source: RandomSource) -> NDArray[np.int64]:
        """Return the place (h,) of a replacement for each row of similarities (h, m).

        Raises ValueError for no candidates, and for a similarity that is no number.
        """
        rows = as_rows(similarities)
        return np.array([self._draw(row, source) for row in rows], np.int64)

    def probabilities(self, similarities: ArrayLike) -> NDArray[np.float64]:
        """Return (m,) the probability of each candidate of one row (m,), as drawn."""
        (row,) = as_rows(np.asarray(similarities, np.float64)[None])
        if 0 < self.epsilon < math.inf:
            weights = level_weights(self._levels.slope, self._levels.levels)
            drawn = [weights[level] for level in self._levels.on_levels(row).tolist()]
            total = sum(drawn)
            return np.array([weight / total for weight in drawn])
        best = row == row.max() if self.epsilon else np.ones(len(row), bool)
        return np.asarray(best / best.sum())

    @property
    def _levels(self) -> GumbelTopK:
        epsilon = Fraction(self.epsilon)
        if self.sensitivity < WIDEST:
            return GumbelTopK(1, epsilon, self.sensitivity, -1.0, 1.0)
        # Levels 0 .. `steps` cover the range, so that no input moves further, whatever is rounded.
        return GumbelTopK(1, epsilon, WIDEST * (1 - 2.0**-16), -1.0, 1.0, rounding=0.0)

    def _draw(self, row: NDArray[np.float64], source: RandomSource) -> int:
        if 0 < self.epsilon < math.inf:
            return int(self._levels.release(row, source)[0])
        best = np.flatnonzero(row == row.max()) if self.epsilon else np.arange(len(row))
        return int(best[below(len(best), source)])


@dataclass(frozen=True)
class PrintedReplacement:
    """As printed: candidates are the items with a path; epsilon: claimed. No guarantee."""

    epsilon: float

    def __post_init__(self) -> None:
        check_selection(self.epsilon, WIDEST)

    @property
    def adjacency(self) -> Adjacency:
        """Nothing is protected."""
        return Adjacency.NOTHING

    @property
    def guarantee(self) -> str:
        """The label."""
        return PAPER

    def release(
        self, similarities: ArrayLike, linked: ArrayLike, source: RandomSource
    ) -> NDArray[np.int64]:
        """Return the place (h,) of a replacement for each row, -1 where nothing is linked.

        similarities (h, m); linked (h, m): whether a path gives the similarity.
        """
        rows, known = as_rows(similarities), np.asarray(linked, bool)
        drawn = PrivateReplacement(self.epsilon)
        found = np.full(len(rows), -1, np.int64)
        for at, (row, candidates) in enumerate(zip(rows, map(np.flatnonzero, known), strict=True)):
            if len(candidates):
                found[at] = candidates[drawn.release(row[candidates][None], source)[0]]
        return found

    def probabilities(self, similarities: ArrayLike, linked: ArrayLike) -> NDArray[np.float64]:
        """Return (m,) the probability of each item of one row."""
        row, known = np.asarray(similarities, np.float64), np.asarray(linked, bool)
        found = np.zeros(len(row))
        if known.any():
            found[known] = PrivateReplacement(self.epsilon).probabilities(row[known])
        return found


def check_selection(epsilon: float, sensitivity: float) -> None:
    """Raise ValueError for an epsilon below 0 or no number, and a sensitivity out of 0 .. 2."""
    if not epsilon >= 0:
        raise ValueError(f"epsilon {epsilon}: must be 0 or more, or inf for no protection")
    if not 0 < sensitivity <= WIDEST:
        raise ValueError(
            f"sensitivity {sensitivity} of a similarity: must be above 0 and at most {WIDEST:g}"
        )


def as_rows(similarities: ArrayLike) -> NDArray[np.float64]:
    """Return similarities (h, m) as floats; ValueError for no candidates or for no numbers."""
    rows = np.asarray(similarities, np.float64)
    if rows.ndim != 2 or not rows.shape[1]:
        raise ValueError(
            f"similarities of shape {rows.shape}: a row for each item, of 1 candidate or more"
        )
    if np.isnan(rows).any():
        raise ValueError("a similarity is not a number")
    return rows

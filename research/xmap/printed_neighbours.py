"""PNSA and PNCF as printed (Guerraoui et al. 2017, Theorems 2 to 4): without a guarantee.

    SS(i, j) = max( max_x r_xi r_xj / (|r_i'| |r_j'|),
                    max_x <r_i, r_j> / (|r_i'| |r_j'|) - <r_i, r_j> / (|r_i| |r_j|) )
    w        = min(s_(k), 4 k SS / epsilon') ln(k (|v| - k) / rho)
    P(next = j) ~ e^(epsilon' max(s_j, s_(k) - w) / (4 k SS(i, j)))
    released s + Lap(2 SS / epsilon')

x runs over those who rated both, r' is without x. SS is a local sensitivity, of removal alone, and
where products may be negative it does not even bound that. It stands in the exponent of each
candidate, so that the exponents move with the data. Exponents of ratings with SS <= 0 are not
defined; they get `LEAST`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from research.xmap.replacement import PAPER, WIDEST, check_selection
from stream_app.privacy.privacy_map import Adjacency

LEAST = 1e-6  # in place of a sensitivity of 0 or less, which the formula divides by


def similarity_based_sensitivity(first: ArrayLike, second: ArrayLike) -> float:
    """Return SS of two columns (u,) of centred ratings, 0 where a user has not rated.

    NaN where no user rated both. A user without whom a norm is 0 is left out.
    """
    a, b = (np.asarray(column, np.float64) for column in (first, second))
    both = np.flatnonzero((a != 0) & (b != 0))
    product, whole = float(a @ b), math.sqrt(float(a @ a) * float(b @ b))
    norms = np.sqrt(np.maximum(a @ a - a[both] ** 2, 0) * np.maximum(b @ b - b[both] ** 2, 0))
    left = norms > 1e-12
    if not left.any():
        return math.nan
    moved = a[both] * b[both] / np.where(left, norms, 1)
    shrunk = product / np.where(left, norms, 1) - product / whole
    return float(max(moved[left].max(), shrunk[left].max()))


@dataclass(frozen=True)
class PrintedNeighbours:
    """The printed choice and the printed noise; epsilon: epsilon' as claimed. No guarantee.

    length: |v|, "the maximal length of all the rating vector pairs".
    """

    k: int
    epsilon: float
    length: int
    rho: float = 0.1

    def __post_init__(self) -> None:
        check_selection(self.epsilon, WIDEST)
        if not 0 < self.epsilon < math.inf:
            raise ValueError(f"epsilon {self.epsilon}: the printed formulas need 0 < epsilon < inf")
        if self.k < 1 or self.length <= self.k:
            raise ValueError(
                f"{self.k} neighbours of vectors of length {self.length}: must be less"
            )

    @property
    def adjacency(self) -> Adjacency:
        """Nothing is protected."""
        return Adjacency.NOTHING

    @property
    def guarantee(self) -> str:
        """The label."""
        return PAPER

    def exponents(self, similarities: ArrayLike, sensitivities: ArrayLike) -> NDArray[np.float64]:
        """Return epsilon' s_j' / (4 k SS_j), (m,) each."""
        row, own = np.asarray(similarities, np.float64), np.asarray(sensitivities, np.float64)
        own = np.where(own > LEAST, own, LEAST)
        kth = float(np.sort(row)[-min(self.k, len(row))])
        factor = math.log(self.k * (self.length - self.k) / self.rho)
        window = min(kth, 4 * self.k * float(own.max()) / self.epsilon) * factor
        return np.asarray(self.epsilon * np.maximum(row, kth - window) / (4 * self.k * own))

    def log_probabilities(
        self, similarities: ArrayLike, sensitivities: ArrayLike
    ) -> NDArray[np.float64]:
        """Return ln P of each candidate (m,) in the first round."""
        exponents = self.exponents(similarities, sensitivities)
        top = exponents.max()
        return np.asarray(exponents - top - math.log(np.exp(exponents - top).sum()))

    def choose(
        self, similarities: ArrayLike, sensitivities: ArrayLike, random: np.random.Generator
    ) -> NDArray[np.int64]:
        """Return the places (k,) of k rounds without replacement; evaluation only."""
        exponents = self.exponents(similarities, sensitivities)
        noisy = exponents + random.gumbel(size=len(exponents))
        return np.argsort(-noisy, kind="stable")[: self.k]

    def noisy(
        self, similarities: ArrayLike, sensitivities: ArrayLike, random: np.random.Generator
    ) -> NDArray[np.float64]:
        """Return s + Lap(2 SS / epsilon'), (k,); evaluation only."""
        row, own = np.asarray(similarities, np.float64), np.asarray(sensitivities, np.float64)
        return np.asarray(row + random.laplace(scale=2 * np.maximum(own, LEAST) / self.epsilon))

"""PNSA: the k nearest neighbours of an item, chosen privately (Guerraoui et al. 2017, Theorem 3).

    s_j'    = max(s_j, s_(k) - w),   w = min(s_(k) - lowest, w0)          truncated similarity
    w0      = (4 k Delta / epsilon') ln(k (m - k) / rho)
    P(next = j) ~ e^(epsilon' s_j' / (4 k Delta))     k rounds without replacement

s_(k) is the k-th largest similarity, m the number of candidates. ONE Delta holds for all of them:
with a sensitivity of its own in each exponent the scores are not comparable between neighbouring
data, and nothing follows. w0 depends on public numbers alone, s_(k) moves by at most Delta, so that
s' does too; each round costs epsilon' / 2k and all of them epsilon' / 2. The other half is for the
similarities of the chosen (`neighbour_noise.py`).

With probability 1 - rho every chosen similarity is at least s_(k) - w (Theorem 3). That says little
where w0 is above the width of the range: k = 50, Delta = .1, epsilon' = .8, m = 1,000 give 327.
Rounds without replacement have the law of the k largest of  epsilon' s' / (4 k Delta) + Gumbel
(`one_shot`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from research.gumbel_top_k import GumbelTopK
from research.xmap.replacement import as_rows, check_selection
from stream_app.privacy.privacy_map import Adjacency
from stream_app.privacy.randomness import RandomSource


@dataclass(frozen=True)
class PrivateNeighbours:
    """Chooses k of m candidates; epsilon: epsilon', of which the choice spends half.

    sensitivity: Delta, how far one person's whole record moves any similarity. rho: of the bound on
    accuracy. lowest: the least similarity, 0 for cosine and -1 for adjusted cosine and Pearson.
    Where k is above m all candidates are chosen. Raises ValueError for values out of range.
    """

    k: int
    epsilon: float
    sensitivity: float
    rho: float = 0.1
    lowest: float = -1.0

    def __post_init__(self) -> None:
        check_selection(self.epsilon, self.sensitivity)
        if self.k < 1:
            raise ValueError(f"{self.k} neighbours: must be 1 or more")
        if not 0 < self.rho < 1:
            raise ValueError(f"rho {self.rho}: must be above 0 and below 1")
        if not -1 <= self.lowest <= 0:
            raise ValueError(f"lowest similarity {self.lowest}: must be -1 to 0")
        if 0 < self.epsilon < math.inf:
            self._rounds(self.k)

    @property
    def adjacency(self) -> Adjacency:
        """What epsilon is about: all ratings of one person."""
        return Adjacency.USER if self.epsilon < math.inf else Adjacency.NOTHING

    @property
    def spent(self) -> float:
        """The epsilon of one choice of k."""
        return self.epsilon / 2

    def window(self, candidates: int) -> float:
        """Return w0 for so many candidates: 0 where all are chosen, inf at epsilon 0."""
        if candidates <= self.k or self.epsilon == math.inf:
            return 0.0
        if not self.epsilon:
            return math.inf
        scale = 4 * self.k * self.sensitivity / self.epsilon
        return scale * max(0.0, math.log(self.k * (candidates - self.k) / self.rho))

    def truncated(self, similarities: ArrayLike) -> NDArray[np.float64]:
        """Return s' (m,): every similarity, at least s_(k) - w; without truncation at inf."""
        (row,) = as_rows(np.asarray(similarities, np.float64)[None])
        row = np.asarray(row.clip(self.lowest, 1.0))
        if self.epsilon == math.inf:  # w is 0, and what is not among the k would equal the k-th
            return row
        kth = float(np.partition(row, -min(self.k, len(row)))[-min(self.k, len(row))])
        return np.asarray(np.maximum(row, max(self.lowest, kth - self.window(len(row)))))

    def release(self, similarities: ArrayLike, source: RandomSource) -> NDArray[np.int64]:
        """Return the places (k,) of the chosen among similarities (m,), in the order of rounds."""
        scores = self.truncated(similarities)
        k = min(self.k, len(scores))
        if 0 < self.epsilon < math.inf:
            return self._rounds(k).release(scores, source)
        order = np.argsort(source.words(len(scores)), kind="stable")  # equal words: 2^-64 each
        if not self.epsilon:
            return order[:k]
        return order[np.argsort(-scores[order], kind="stable")[:k]]

    def one_shot(self, similarities: ArrayLike, random: np.random.Generator) -> NDArray[np.int64]:
        """Return as `release` does, from one Gumbel variable a candidate: fast, for evaluation.

        Variables in floating point show more than their law; what is released takes `release`.
        """
        scores = self.truncated(similarities)
        k = min(self.k, len(scores))
        if self.epsilon == math.inf:
            return np.argsort(-scores, kind="stable")[:k]
        noisy = self.epsilon * scores / (4 * k * self.sensitivity) + random.gumbel(size=len(scores))
        return np.argsort(-noisy, kind="stable")[:k]

    def log_likelihood(self, places: ArrayLike, similarities: ArrayLike) -> float:
        """Return ln P(the ordered `places` | similarities); epsilon above 0 and finite."""
        scores = self.truncated(similarities)
        return self._rounds(min(self.k, len(scores))).log_likelihood(places, scores)

    def _rounds(self, k: int) -> GumbelTopK:
        # With fewer candidates than k there are fewer rounds: together they cost the same half.
        return GumbelTopK(k, Fraction(self.epsilon) / 2, self.sensitivity, self.lowest, 1.0)

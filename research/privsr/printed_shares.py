"""The noise of PrivSR as printed (Meng et al. 2018, Theorem 1): without a guarantee.

    x_j^i = (2 D / eps_s) sqrt(2 K h_j) c_ij    of a sensitive rating,   eps_s = (1 + beta) eps
    y_j^i = (2 D / eps_n) sqrt(2 K h_j) c_ij    of another,              eps_n = (1 + 1/beta) eps
    h_j ~ Exp(1)^K, known to all raters of j;   c_ij ~ N(0, 1 / number of raters of the class)^K

The proof takes one c out of the two sums, which are independent: the sum is

    Lap((2 D sqrt K / eps) sqrt(1 + beta^2) / (1 + beta)),

less than claimed; `real_budget` is what it would cost where h_j were secret. It is not: the one
that draws h_j and all raters know it, and given h_j the noise is Gaussian. A rater knows its own
share; the sum of shares needs a secure sum, which the protocol does not have.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from research.privsr.social_factorization import Matrix, SocialRatings

LABEL = "paper: no guarantee"
WIDTH = 4.0  # D, the width of the scale in stars


@dataclass(frozen=True)
class PrintedShares:
    """The shares of all raters; `seed` of the noise (floating point, evaluation only)."""

    epsilon: float
    beta: float = 0.5
    factors: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        if not (self.epsilon > 0 and self.beta > 0):
            raise ValueError(f"epsilon {self.epsilon}, beta {self.beta}: must be above 0")

    @property
    def budgets(self) -> tuple[float, float]:
        """Return eps_s and eps_n."""
        return (1 + self.beta) * self.epsilon, (1 + 1 / self.beta) * self.epsilon

    @property
    def real_budget(self) -> float:
        """Return the epsilon of the sum of both classes, were h_j secret; above the claim."""
        return self.epsilon * (1 + self.beta) / math.hypot(1, self.beta)

    def common(self, catalogue: int) -> Matrix:
        """Return h (catalogue, factors)."""
        return np.random.default_rng((self.seed, 0)).exponential(size=(catalogue, self.factors))

    def shares(self, data: SocialRatings, step: int) -> Matrix:
        """Return the share (n, factors) of each rating."""
        raters = _raters(data)[data.sensitive.astype(int), data.items]
        random = np.random.default_rng((self.seed, 1, step))
        normal = random.normal(size=(len(data.stars), self.factors)) / np.sqrt(raters)[:, None]
        strict, loose = self.budgets
        scale = 2 * WIDTH / np.where(data.sensitive, strict, loose)
        common = np.sqrt(2 * self.factors * self.common(data.catalogue))
        return np.asarray(scale[:, None] * common[data.items] * normal)

    def item_noise(self, data: SocialRatings, step: int) -> Matrix:
        """Return p (catalogue, factors), the sum of the shares."""
        noise = np.zeros((data.catalogue, self.factors))
        np.add.at(noise, data.items, self.shares(data, step))
        return noise

    def friend_noise(self, people: int, step: int) -> Matrix:
        """Return q (people, factors) of Theorem 2: half of what two unit vectors need."""
        random = np.random.default_rng((self.seed, 2, step))
        scale = 2 * math.sqrt(self.factors) / self.epsilon
        return random.laplace(scale=scale, size=(people, self.factors))


def _raters(data: SocialRatings) -> NDArray[np.int64]:
    """Return (2, catalogue): raters of each item, others and sensitive; devices are given both."""
    count = data.catalogue
    return np.stack([np.bincount(data.items[data.sensitive == s], minlength=count) for s in (0, 1)])

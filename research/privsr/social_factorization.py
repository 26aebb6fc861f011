"""Social matrix factorization, the model of PrivSR (Meng et al. 2018, eqs 1 to 9).

    J = sum (R_ij - u_i.v_j)^2 + alpha sum S_if |u_i - u_f|^2 + lam (|U|^2 + |V|^2),   |u_i| <= 1

R: stars less `middle`, a public number. A step solves for all v_j with U fixed, then for every u_i
with V and the friends' last vectors fixed, and moves u_i into the unit ball. With noise the
stationary points are

    2 sum_i (u_i.v_j - R_ij) u_i + 2 lam v_j + p_j = 0
    2 sum_j (u_i.v_j - R_ij) v_j + 2 lam u_i + 2 alpha sum_f S_if (u_i - u_f) + q_i = 0

Users keep u_i; the recommender holds V. alpha = 0 is plain matrix factorization.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MIDDLE = 3.0
Matrix = NDArray[np.float64]
Noise = Callable[[int], Matrix]  # number of a step -> p (items, factors), or q (users, factors)


class SocialRatings(NamedTuple):
    """Ratings (n,) by numbers of users and items, and links of trust (e,) between users."""

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    stars: Matrix  # 1 .. 5
    sensitive: NDArray[np.bool_]
    trusting: NDArray[np.int64]
    trusted: NDArray[np.int64]
    people: int
    catalogue: int

    def part(self, rows: NDArray[np.int64]) -> SocialRatings:
        """Return some of the ratings, and all trust."""
        return self._replace(
            users=self.users[rows],
            items=self.items[rows],
            stars=self.stars[rows],
            sensitive=self.sensitive[rows],
        )


@dataclass(frozen=True)
class SocialParameters:
    """K, alpha, lam, the number of steps, and the stars that are subtracted from all ratings."""

    factors: int = 8
    alpha: float = 0.0
    lam: float = 1.0
    steps: int = 10
    middle: float = MIDDLE
    seed: int = 0


class SocialFactors(NamedTuple):
    """U (people, factors) and V (catalogue, factors), and the middle."""

    users: Matrix
    items: Matrix
    middle: float

    def predict(self, users: NDArray[np.int64], items: NDArray[np.int64]) -> Matrix:
        """Return predicted stars (n,), within 1 .. 5."""
        found = self.middle + (self.users[users] * self.items[items]).sum(axis=1)
        return np.asarray(np.clip(found, 1, 5))


def social_factorization(
    data: SocialRatings,
    parameters: SocialParameters,
    item_noise: Noise | None = None,
    friend_noise: Noise | None = None,
) -> SocialFactors:
    """Return the factors after all steps; noise is p_j and q_i, where given."""
    d, lam = parameters.factors, parameters.lam
    random = np.random.default_rng(parameters.seed)
    users = in_ball(random.normal(0, 0.5, (data.people, d)))
    items = np.zeros((data.catalogue, d))
    residual = data.stars - parameters.middle
    friends = np.bincount(data.trusting, minlength=data.people).astype(np.float64)
    ridge = lam + parameters.alpha * friends[:, None, None]
    for step in range(parameters.steps):
        sums = _added(data.items, residual, users[data.users], data.catalogue)
        if item_noise is not None:
            sums -= item_noise(step) / 2
        items = _solved(_grams(data.items, users[data.users], data.catalogue), sums, lam)
        sums = _added(data.users, residual, items[data.items], data.people)
        np.add.at(sums, data.trusting, parameters.alpha * users[data.trusted])
        if friend_noise is not None:
            sums -= friend_noise(step) / 2
        grams = _grams(data.users, items[data.items], data.people)
        users = in_ball(_solved(grams, sums, ridge))
    return SocialFactors(users, items, parameters.middle)


def in_ball(vectors: Matrix) -> Matrix:
    """Return vectors (n, d) moved into the unit ball."""
    return np.asarray(vectors / np.maximum(1, np.linalg.norm(vectors, axis=1, keepdims=True)))


def _added(rows: NDArray[np.int64], weights: Matrix, vectors: Matrix, count: int) -> Matrix:
    sums = np.zeros((count, vectors.shape[1]))
    np.add.at(sums, rows, weights[:, None] * vectors)
    return sums


def _grams(rows: NDArray[np.int64], vectors: Matrix, count: int) -> Matrix:
    grams = np.zeros((count, vectors.shape[1], vectors.shape[1]))
    np.add.at(grams, rows, vectors[:, :, None] * vectors[:, None, :])
    return grams


def _solved(grams: Matrix, sums: Matrix, ridge: float | Matrix) -> Matrix:
    identity = np.eye(sums.shape[1])
    return np.asarray(np.linalg.solve(grams + ridge * identity, sums[..., None])[..., 0])

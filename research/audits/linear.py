"""The linear adversary of published scores: who knows all but one rating solves for it.

    Slope One   r_l + m x = m A_j - sum_k s_jk - sum_{k != l} r_k   (Park and Acharya 2011, 23-25)
    cosine      s_lj + m x = m A_j - sum_{k != l} s_kj              (eqs. 26, 27)

A_j = f_j + x: a published score with its noise, x ~ Lap(b), b = Delta f / epsilon; m: the ratings
of the user, r_l the unknown one; s: the deviations or similarities, which the adversary has too.
Cosine: bought (1) where the estimate is nearer to s_lj than to 0.

Three ways to guess stars from estimates; with e = exp(-epsilon / (2 m Delta f)) they succeed with

    plain      the nearest integer                                            1 - e
    clamped    the nearest of 1 .. 5; every rating as likely as another       1 - .8 e
    averaged   of the mean of p estimates; A = P(|mean of p noises| < 1 / 2m)  A, clamped .2 + .8 A

The first falls below chance (1 / 5) as epsilon does, so as a measure of risk it understates: with
no information at all, a fifth of the guesses on the scale are right. For A: the sum of p Laplace
variables is, in absolute value, a mixture of gamma variables of shape p - i with the weights
C(p - 1 + i, i) 2^-(p - 1 + i), i = 0 .. p - 1 (Kotz, Kozubowski and Podgorski 2001, section 2.3).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

STARS = 5
CHANCE = 1 / STARS


class Success(NamedTuple):
    """Probabilities that the guess of a rating is right."""

    plain: float
    clamped: float
    averaged: float
    averaged_clamped: float


def slope_one_estimates(
    published: NDArray[np.floating],
    deviations: NDArray[np.floating],
    stars: NDArray[np.floating],
    attacked: int,
) -> NDArray[np.float64]:
    """Return an estimate (p,) of the rating `attacked` from each of p published scores (eq. 23).

    deviations (m, p): s_jk of the m rated items k; stars (m,), of which stars[attacked] is not
    used.
    """
    known = float(np.delete(np.asarray(stars, np.float64), attacked).sum())
    found = len(stars) * np.asarray(published, np.float64) - deviations.sum(axis=0, dtype=float)
    return np.asarray(found - known)


def cosine_guesses(
    published: NDArray[np.floating], similarities: NDArray[np.floating], attacked: int
) -> NDArray[np.bool_]:
    """Return from each of p published scores (p,) whether the item `attacked` was bought (eq. 26).

    similarities (m, p): s_kj of the m items k, of which the user bought all but perhaps that one.
    A score is the sum over the bought items divided by m, in both cases.
    """
    own = np.asarray(similarities[attacked], np.float64)
    found = len(similarities) * np.asarray(published, np.float64)
    found -= similarities.sum(axis=0, dtype=float) - own
    return np.asarray(np.abs(found - own) < np.abs(found))


def plain(estimates: NDArray[np.floating]) -> NDArray[np.int64]:
    """Return the nearest integer of each estimate, on the scale or not."""
    return np.asarray(np.rint(estimates), np.int64)


def clamped(estimates: NDArray[np.floating]) -> NDArray[np.int64]:
    """Return the nearest of 1 .. 5 of each estimate."""
    return np.asarray(np.clip(plain(np.clip(estimates, 0, STARS + 1)), 1, STARS))


def success(epsilon: float, profile: int, sensitivity: float, scores: int = 1) -> Success:
    """Return what the four guesses succeed with, every rating as likely as another.

    profile: m; sensitivity: Delta f of the noise on each score; scores: p that are averaged.
    Raises ValueError for values that are not above 0 and finite.
    """
    _check(epsilon, profile, sensitivity)
    if scores < 1:
        raise ValueError(f"{scores} scores: must be 1 or more")
    reach = epsilon / (2 * profile * sensitivity)  # of half a star, in units of b
    alone, together = within(reach, 1), within(scores * reach, scores)
    return Success(alone, CHANCE + (1 - CHANCE) * alone, together, CHANCE + (1 - CHANCE) * together)


def cosine_success(epsilon: float, profile: int, sensitivity: float, similarity: float) -> float:
    """Return how often `cosine_guesses` is right from one score, bought or not alike:
    1 - e^(-s_lj / (2 m b)) / 2, at least chance (1 / 2).

    similarity: s_lj >= 0 of the attacked item and that of the score. Errors: as `success`.
    """
    _check(epsilon, profile, sensitivity)
    return 1 - math.exp(-similarity * epsilon / (2 * profile * sensitivity)) / 2


def within(reach: float, count: int) -> float:
    """Return P(|sum of `count` Laplace variables of scale 1| < reach)."""
    # Of a gamma variable of whole shape a: P(above c) = e^-c sum_{i < a} c^i / i!
    terms = np.cumsum(np.log(np.arange(1, count)) if count > 1 else np.zeros(0))
    factorials = np.concatenate(([0.0], terms))
    powers = np.arange(count) * math.log(reach) - factorials - reach
    above = np.minimum(np.cumsum(np.exp(powers)), 1.0)[::-1]  # of shapes count, count - 1 .. 1
    weights, weight = np.empty(count), math.ldexp(1.0, 1 - count)
    for i in range(count):
        weights[i] = weight
        weight *= (count + i) / (2 * (i + 1))
    return float(np.dot(weights, 1 - above))


def allowed(epsilon: float, delta: float = 0.0) -> float:
    """Return the success that no guess exceeds where (epsilon, delta) protects the value of a
    rating, each of the five as likely as another: e^epsilon / (e^epsilon + 4) + delta."""
    return min(1.0, 1 / (1 + (STARS - 1) * math.exp(-epsilon)) + delta)


def _check(epsilon: float, profile: int, sensitivity: float) -> None:
    for name, value in (("epsilon", epsilon), ("sensitivity", sensitivity)):
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} {value}: must be above 0 and finite")
    if profile < 1:
        raise ValueError(f"{profile} ratings: must be 1 or more")

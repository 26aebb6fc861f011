"""The mechanism of Park and Acharya 2011, section 3, as printed: NO guarantee, for reproduction.

    Slope One   Delta f = max((R / T) (1 + 2 / phi), R / phi)                (Theorem 3.1, eq. 11)
    cosine      Delta f = 2 / T                                              (Theorem 3.2, eq. 17)
    released    f_ij + Lap(Delta f / epsilon) of every item j                (after Theorem 3.2)

R: the range of the ratings; T: the least ratings of a user who is served; phi: a pair counts where
it has more than phi co-raters. What is wrong:

* an added rating of another user takes pairs over the threshold: scores move by R, not by R / phi;
* an own rating added moves a score by 3 R / (T + 1), since s_jl is bounded by R, not by R / phi;
* a first buyer of an item moves a cosine by .7, not by 1 / T;
* epsilon is that of one score. A change moves many at once, so k of them that are shown cost up to
  k epsilon, and the order of the k best up to 2 k epsilon (each of the winning noises shifted by
  2 Delta f keeps the winners).

What holds is `value` adjacency, for one score: with the ratings that exist fixed, another value of
a rating moves a score by at most max(R / T, R / (phi + 1)). The noise is drawn in floating point,
as printed, and would not be private even if the sensitivity were right (Mironov 2012).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from research.similarity.slope_one import RANGE
from stream_app.privacy.privacy_map import Adjacency

LEAST_RATERS = 10  # phi_m of the paper's experiment
LEAST_PROFILE = 20  # T
PRINTED_RANGE = 5.0  # of the experiment, which calls 1 .. 5 stars a range of 5
LIST = 20


@dataclass(frozen=True)
class PrintedLaplace:
    """Laplace noise of scale Delta f / epsilon on each score; `sensitivity` is the printed one.

    `protects` names the only adjacency that its epsilon holds for, and that for one score.
    """

    epsilon: float
    sensitivity: float

    protects: ClassVar[Adjacency] = Adjacency.VALUE
    label: ClassVar[str] = "paper (no guarantee for a list)"

    def __post_init__(self) -> None:
        """Raise ValueError for an epsilon or a sensitivity that is not above 0 and finite."""
        for name, value in (("epsilon", self.epsilon), ("sensitivity", self.sensitivity)):
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} {value}: must be above 0 and finite")

    @property
    def scale(self) -> float:
        """b = Delta f / epsilon, in units of a score."""
        return self.sensitivity / self.epsilon

    def release(
        self, scores: NDArray[np.floating], generator: np.random.Generator
    ) -> NDArray[np.float64]:
        """Return every score with noise of its own, the shape of `scores`."""
        return np.asarray(scores + generator.laplace(0.0, self.scale, np.shape(scores)))

    def cost_of_shown_scores(self, count: int, moved: float) -> float:
        """Return the epsilon of showing `count` scores that one change moves by `moved` each."""
        return count * moved / self.scale

    def bound_of_list(self, k: int) -> float:
        """Return what the order of the k best costs at most where `sensitivity` is right:
        2 k epsilon."""
        return 2 * k * self.epsilon


def slope_one_sensitivity(
    least_profile: int = LEAST_PROFILE, least_raters: int = LEAST_RATERS, span: float = RANGE
) -> float:
    """Return the printed bound of Slope One (eq. 11), which does not hold."""
    _check(least_profile, least_raters)
    return max(span / least_profile * (1 + 2 / least_raters), span / least_raters)


def cosine_sensitivity(least_profile: int = LEAST_PROFILE) -> float:
    """Return the printed bound of cosine (eq. 17), which does not hold."""
    _check(least_profile, 1)
    return 2 / least_profile


def value_sensitivity(
    least_profile: int = LEAST_PROFILE, least_raters: int = LEAST_RATERS, span: float = RANGE
) -> float:
    """Return how far another VALUE of one rating moves a score of plain Slope One, at most.

    Proof. An own value moves the mean of the user's m >= T ratings by R / T, and no s_jk, since an
    item that the user has not rated is not among those. Another user's value moves s_jk of pairs
    with more than phi co-raters by R / (phi + 1), and f is a mean of them.
    """
    _check(least_profile, least_raters)
    return max(span / least_profile, span / (least_raters + 1))


def _check(least_profile: int, least_raters: int) -> None:
    if least_profile < 1 or least_raters < 1:
        raise ValueError(
            f"least profile {least_profile}, least co-raters {least_raters}: 1 or more of each"
        )

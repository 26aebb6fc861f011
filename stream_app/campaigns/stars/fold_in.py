"""A person folded in on the device: ridge regression of own ratings on the public item side.

    r_i ~ MEAN + b_i + u + p . q_i + t . x_i
    minimise  sum_i (...)^2 + 7 u^2 + .5 |p|^2 + 100 |t|^2

b, q and the features x are public; u, p and t are computed from clean ratings and stay here. They
enter a contribution only inside a vector of bounded norm.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.campaigns.rated_items import RatedItems
from stream_app.campaigns.stars.side import StarsSide

MEAN = 3.6  # public and fixed; the biases of items take up what differs
BIAS_RIDGE = 7.0
TASTE_RIDGE = 0.5
FEATURE_RIDGE = 100.0


class Person(NamedTuple):
    """bias u, taste p (d,), leanings t (m,), and what they leave of each rating (n,)."""

    bias: float
    taste: NDArray[np.float64]
    leanings: NDArray[np.float64]
    residuals: NDArray[np.float64]


def fold_in(side: StarsSide, rated: RatedItems) -> Person:
    """Return the person with these ratings; zeros for a person without any."""
    factors, features = side.vectors.shape[1], side.features.shape[1]
    rows = np.hstack(
        [
            np.ones((len(rated), 1)),
            side.vectors[rated.places],
            side.features[rated.places],
        ]
    )
    left = rated.stars - MEAN - side.biases[rated.places]
    ridge = [BIAS_RIDGE, *[TASTE_RIDGE] * factors, *[FEATURE_RIDGE] * features]
    found = np.linalg.solve(rows.T @ rows + np.diag(ridge), rows.T @ left)
    return Person(
        float(found[0]), found[1 : 1 + factors], found[1 + factors :], left - rows @ found
    )


def predict(side: StarsSide, person: Person, places: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the expected stars, 1 .. 5, of items of the scope."""
    expected = MEAN + side.biases[places] + person.bias
    expected += side.vectors[places] @ person.taste + side.features[places] @ person.leanings
    return np.clip(expected, 1.0, 5.0)

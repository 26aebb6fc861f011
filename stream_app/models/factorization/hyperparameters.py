"""The hyperparameters of the online learner: one frozen set for every epsilon, on the scale 1..5.

They are the constants of the scalar Kalman step (`kernels/factorization/kalman_update.py`), found
on the validation part of MovieLens-1M. Variances are in stars squared. Other scales are mapped
linearly to 1..5 first, so one set serves all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import NamedTuple

# A variance of nothing divides by zero; a vector of zeros never moves (both gradients vanish).
_LEAST = {"noise": 0.01, "prior_variance": 0.1, "user_sd": 1e-6, "item_sd": 1e-6, "cell_sd": 1e-6}


class Constants(NamedTuple):
    """Argument of the kernels: the fields of `Parameters` in their order, all float64."""

    user_shrink: float
    item_shrink: float
    bias_shrink: float
    user_sd: float
    item_sd: float
    cell_sd: float
    user_variance: float
    item_variance: float
    user_bias_variance: float
    item_bias_variance: float
    mean_variance: float
    noise: float
    coupling: float
    prior_variance: float
    prior_slope: float
    clip: float


@dataclass(frozen=True)
class Parameters:
    """Constants of the learner; `clip` bounds the squared error of an accepted rating (Balu 2016,
    chapter 4).

    Clipping bounds the influence of one outlier on the model. It is not
    differential privacy: the clipped learner is a deterministic function of its ratings.
    """

    user_shrink: float = 0.0115  # lambda of the vectors
    item_shrink: float = 3e-05
    bias_shrink: float = 0.022  # lambda of the biases
    user_sd: float = 0.0033  # of one component of an unlearned vector (dense rows)
    item_sd: float = 0.04
    cell_sd: float = 0.016  # the same, of a vector read from a sketch
    user_variance: float = 0.37  # of a component, before the first rating
    item_variance: float = 0.43
    user_bias_variance: float = 0.35
    item_bias_variance: float = 0.8
    mean_variance: float = 0.026
    noise: float = 2.0  # of a rating around the model
    coupling: float = 0.087  # kappa: how fast evidence narrows a vector's variance
    prior_variance: float = 0.733  # of the prior over levels, at T = 0
    prior_slope: float = 1.7  # increase of the variance per unit of T
    clip: float = math.inf

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "clip":
                if not value > 0:
                    raise ValueError(f"clip {value}: must be above 0 (inf for no clipping)")
            elif not 0 <= value < 100:
                raise ValueError(f"{field.name} {value}: must lie in 0 .. 100")
        for name, least in _LEAST.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name} {getattr(self, name)}: must be at least {least}")
        if not self.coupling < 1:
            raise ValueError(f"coupling {self.coupling}: must be below 1 (variances stay positive)")

    @property
    def constants(self) -> Constants:
        """The same numbers as an argument of the kernels."""
        return Constants(*(float(getattr(self, name)) for name in Constants._fields))

"""The hyperparameters of the online learner: one frozen set for every epsilon, on the scale 1..5.

They are the constants of the scalar Kalman step (`kernels/factorization/kalman_update.py`). A
random search over all of them minimised the errors, on validation parts and prequential, of ML-1M
(counted five times), MovieLens-100K, Ciao, FilmTrust and Amazon books and movies without noise and
under randomized response at epsilon 4, 2, 1 and 1/2, of cells at 2 and 1, and of the drift
benchmark. Variances are in stars squared. Other scales are mapped linearly to 1..5 first, so one
set serves all.
"""

from __future__ import annotations

import math
from collections import namedtuple
from dataclasses import dataclass, fields

# A variance of nothing divides by zero; a vector of zeros never moves (both gradients vanish).
_LEAST = {"noise": 0.01, "prior_variance": 0.1, "user_sd": 1e-6, "item_sd": 1e-6, "cell_sd": 1e-6}


@dataclass(frozen=True)
class Parameters:
    """Constants of the learner; `clip` bounds the squared error of an accepted rating (Balu 2016,
    chapter 4).

    Clipping bounds the influence of one outlier on the model. It is not
    differential privacy: the clipped learner is a deterministic function of its ratings.
    """

    user_shrink: float = 0.022  # lambda of the vectors
    item_shrink: float = 2e-05
    bias_shrink: float = 0.022  # lambda of the biases
    user_sd: float = 0.014  # of one component of an unlearned vector (rows of an entity's own)
    item_sd: float = 0.044
    cell_sd: float = 0.016  # the same, of a vector read from a sketch
    user_variance: float = 0.39  # of a component, before the first rating
    item_variance: float = 0.38
    # Sets differ: the best variance of users' biases is .3 on Ciao and .7 on Amazon books.
    user_bias_variance: float = 0.41
    item_bias_variance: float = 0.70
    # The mean of sparse data far from mid-scale must be found from reports of little information.
    # amazon books, rr:5:1/2: .026 1.126, .3 1.000, 1 .996, 2 .994; ML-1M differs by .0005.
    mean_variance: float = 2.0
    noise: float = 1.84  # of a rating around the model
    coupling: float = 0.088  # kappa: how fast evidence narrows a vector's variance
    # h: a vector moves 1 + h times as far at first; above 1 a step may overshoot its error.
    early_gain: float = 1.0
    prior_variance: float = 0.22  # of the prior over levels, at T = 0
    prior_slope: float = 2.2  # increase of the variance per unit of T
    # What a rating adds to the variances of its biases, as a share of the first ones: tastes change
    # faster than things. RMSE without / with: items that lose 1.5 stars, after 500 later ratings of
    # rr:5:2, 1.12 / .78 (without noise .80 / .65; `tests/benchmarks/drift.py`); ML-1M in time order
    # .8824 / .8798. Five times the rate for users costs ML-1M in random order .0009.
    user_drift: float = 3e-4
    item_drift: float = 4e-5
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
        if not self.early_gain <= 1:
            raise ValueError(f"early_gain {self.early_gain}: must be at most 1 (a step converges)")

    @property
    def constants(self) -> tuple[float, ...]:
        """The same numbers as an argument of the kernels."""
        return Constants(*(float(getattr(self, name)) for name in _NAMES))


_NAMES = [field.name for field in fields(Parameters)]
# Under its own name, by which a compiled kernel is found in its cache.
Constants = namedtuple("Constants", _NAMES)  # type: ignore[misc] # names are those of a dataclass

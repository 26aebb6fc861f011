"""What every trainer has in common: what it is given, what it promises, what it returns.

A trainer belongs to the central mode: it is given true ratings and releases a model. Its guarantee
is of one rating event, replaced by a null event in its place (adjacency `event`), and it holds for
everything that is computed from the released model, at any time of the training. A person with n
ratings is protected n times less; a duplicate of an event must be removed before.

Public, so given beforehand: the sizes, the number of event slots, and the schedule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from research.trainers.cell_model import CellModel
from stream_app.models.factorization.learner import Keys, LearnerSpec
from stream_app.privacy.gaussian.sampling import discrete_gaussian
from stream_app.privacy.privacy_map import Adjacency
from stream_app.privacy.randomness import RandomSource

BOUND = 1024  # units of the integer grid for the largest vector of a rating
DELTA = Fraction(1, 10**6)


class Events(NamedTuple):
    """Ratings in the order of the log, stars on 1 .. 5: (n,) each."""

    users: Keys
    items: Keys
    stars: NDArray[np.float64]


@dataclass(frozen=True)
class TrainerSpec:
    """Sizes and budget of a trainer.

    sizes: of the model. events: the number of event slots of the log, which is public. epsilon:
    None trains without noise. norm: the largest L2 norm of a rating's vector, in stars.
    """

    sizes: LearnerSpec
    events: int
    epsilon: Fraction | None = Fraction(2)
    delta: Fraction = DELTA
    norm: float = 1.4

    def __post_init__(self) -> None:
        if self.events < 1:
            raise ValueError(f"events {self.events}: 1 or more")
        if self.epsilon is not None and not self.epsilon > 0:
            raise ValueError(f"epsilon {self.epsilon}: must be above 0 (or inf for no noise)")
        if not 0 < self.delta < 1:
            raise ValueError(f"delta {self.delta}: must be above 0 and below 1")
        if not 0 < self.norm < 100:
            raise ValueError(f"norm {self.norm}: must be above 0, in stars")


@dataclass(frozen=True)
class Guarantee:
    """(epsilon, delta) of one rating event; epsilon None: nothing is promised, for `reason`."""

    epsilon: float | None
    delta: float
    reason: str = ""
    adjacency: Adjacency = field(init=False)

    def __post_init__(self) -> None:
        kind = Adjacency.NOTHING if self.epsilon is None else Adjacency.EVENT
        object.__setattr__(self, "adjacency", kind)

    def __str__(self) -> str:
        if self.epsilon is None:
            return f"no guarantee: {self.reason}"
        return f"({self.epsilon:.4g}, {self.delta:.3g}) for one rating event, central"


UNPROTECTED = "trained without noise"


class Trainer(Protocol):
    """A model in the making; `train` is called once."""

    name: str
    model: CellModel

    @property
    def guarantee(self) -> Guarantee:
        """Return what a rating event is protected by."""

    def train(self, events: Events, progress: Callable[[int], None]) -> None:
        """Train the model on at most as many events as the spec has slots."""


@dataclass(frozen=True)
class NoisyGradients:
    """Clipped sums of a model with discrete Gaussian noise of one variance; None: without noise."""

    model: CellModel
    norm: float
    variance: Fraction | None
    source: RandomSource

    @property
    def deviation(self) -> float:
        """Return the standard deviation of the noise in stars."""
        return 0.0 if self.variance is None else self._unit * float(self.variance) ** 0.5

    @property
    def _unit(self) -> float:
        return self.norm / BOUND

    def clipped(self, events: Events, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sum of the rows' vectors in units, without noise: never released."""
        sums = np.zeros(self.model.size, np.int64)
        self.model.add_clipped(events, rows, self.norm, BOUND, sums)
        return sums

    def noise(self) -> NDArray[np.int64]:
        """Return noise for every coordinate, in units."""
        if self.variance is None:
            return np.zeros(self.model.size, np.int64)
        return discrete_gaussian(self.variance, self.model.size, self.source)

    def released(self, events: Events, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the noisy sum in stars."""
        return self.in_stars(self.clipped(events, rows) + self.noise())

    def in_stars(self, units: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return a noisy sum in stars."""
        return units.astype(np.float64) * self._unit


def check_events(events: Events, spec: TrainerSpec) -> None:
    """Raise ValueError where there are more events than slots."""
    if len(events.stars) > spec.events:
        raise ValueError(f"{len(events.stars)} events for {spec.events} slots: give as many slots")

"""The step from a noisy sum of gradients to the next model: post-processing, without a rating.

    b     += share  g_b / (max(c / t, noise / sqrt t) t^decline + shrink)
    mean  += share  g_mean / (events of a step) / t^decline
    cells  = (1 - decay) cells + rate g_cells

t: steps so far; g: the noisy sum; c: the sum of the noisy counts of the slot so far. A slot's own
count makes its step that of Newton: rare slots, whose sum is mostly noise, move little. The rate of
the cells falls with the noise, so that noise alone moves a component by less than the vectors are
long.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from research.trainers.cell_model import COUNT, SHARE, CellModel


@dataclass(frozen=True)
class Schedule:
    """Constants, public."""

    share: float
    decline: float = 0.5
    shrink: float = 3.0
    rate: float = 0.1
    noise_rate: float = 0.02  # the rate is at most this over the noise in stars
    decay: float = 0.01


@dataclass(eq=False)
class Descent:
    """The steps of one training; `noise`: of a sum, in stars; `events`: expected of a step."""

    model: CellModel
    schedule: Schedule
    noise: float
    events: float
    _steps: int = field(default=0, init=False)
    _counts: NDArray[np.float64] | None = field(default=None, init=False)

    def step(self, sums: NDArray[np.float64]) -> None:
        """Move the model by one noisy sum of all coordinates, in stars."""
        schedule, scalars = self.schedule, self.model.scalars
        self._steps += 1
        counts = sums[scalars + 2 :: 2] / COUNT
        self._counts = counts if self._counts is None else self._counts + counts
        floor = self.noise / COUNT / self._steps**0.5
        weight = np.maximum(self._counts / self._steps, floor) * self._steps**schedule.decline
        weight += schedule.shrink * max(1.0, self.noise)
        theta = self.model.theta
        theta[scalars + 1 :: 2] += schedule.share * sums[scalars + 1 :: 2] / weight
        mean = schedule.share * sums[scalars] / (SHARE * self.events)
        theta[scalars] += mean / self._steps**schedule.decline
        rate = min(schedule.rate, schedule.noise_rate / self.noise if self.noise else np.inf)
        self.model.cells[:] = (1 - schedule.decay) * self.model.cells + rate * sums[:scalars]

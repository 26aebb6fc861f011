"""Stochastic gradient Langevin dynamics: a walk whose noise makes it draw from the posterior.

    U(theta) = sum e^2 / 2s^2 + |b|^2 / 2 V_b + |cells|^2 / 2 V_c

Balu 2016, eqs 2.13 and 2.14, print  theta - eta grad + sqrt(eta) N(0, I)  with the gradient of one
rating. Its stationary law has half the temperature (a variance of 1/2 where U = x^2 / 2), of a
posterior of one rating. Corrected (Welling and Teh 2011), with the gradient of a sample at rate q:

    theta <- theta - eta (1/q sum grad + theta / V) + sqrt(2 eta) N(0, I)

sgld           corrected, with clipped gradients: a step is then a noisy sum over a sample, whose
               noise is sigma = sqrt(2 / eta) q s^2 / norm. It is certified as such (Wang, Fienberg
               and Smola 2015, section 4): eta follows from epsilon, but is never above what keeps
               the walk stable, so that epsilon may be lower than what was asked for
sgld-paper     as printed, one rating after the other: no guarantee. Gradients are unbounded, and
               noise reaches the two vectors that a rating touches alone, so the touch is visible

That one exact draw from a posterior with bounded losses would be private holds for no finite walk.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np

from research.trainers.cell_model import CellModel
from research.trainers.subsampled import RATE, STEPS, Subsampled, sample
from research.trainers.trainer import (
    BOUND,
    Events,
    Guarantee,
    TrainerSpec,
    check_events,
)
from stream_app.privacy.gaussian.sampling import discrete_gaussian
from stream_app.privacy.randomness import RandomSource, SystemSource

NOISE = 0.8  # s^2, of a rating around the model, in stars squared
BIAS_VARIANCE, CELL_VARIANCE = 0.45, 0.06  # V_b, V_c
_STABLE = 40.0  # a slot may have so many times the mean number of ratings
_PAPER = (
    "as printed, the noise has half the temperature, gradients are unbounded, and only the touched "
    "vectors get noise"
)
_PRINTED_RATE = 0.01  # eta
_PRINTED_SHRINK = 0.02  # lambda
_FINE = Fraction(2**20)  # the printed noise is on a grid of 2^-10
_BLOCK = 4096


class Langevin(Subsampled):
    """The trainer `sgld`: it is certified as `subsampled`, and always has noise."""

    name = "sgld"

    def __init__(
        self,
        spec: TrainerSpec,
        source: RandomSource | None = None,
        rate: Fraction = RATE,
        steps: int = STEPS,
    ) -> None:
        super().__init__(spec, source, rate, steps)
        mean = 16 * spec.events / self.model.slots  # ratings of an entity
        eta = NOISE / (_STABLE * max(1.0, mean))
        variance = self._variance(eta)
        if self.gradients.variance is not None:
            variance = max(variance, self.gradients.variance)
        # The noise is a whole number of squared units, and eta is what it stands for.
        self.eta = 2 * (float(rate) * NOISE * BOUND / spec.norm) ** 2 / float(variance)
        self.gradients = replace(self.gradients, variance=variance)

    def _variance(self, eta: float) -> Fraction:
        sigma = math.sqrt(2 / eta) * float(self._rate) * NOISE / self._spec.norm
        return Fraction(max(4, math.ceil((sigma * BOUND) ** 2)))

    def train(self, events: Events, progress: Callable[[int], None]) -> None:
        """Walk; the last state is the draw. The mean stays at the middle: biases hold it."""
        check_events(events, self._spec)
        model, along = self.model, self.eta / (float(self._rate) * NOISE)
        biases = slice(model.scalars + 1, None, 2)
        for _ in range(self.steps):
            rows = sample(len(events.stars), self._rate, self._source)
            sums = self.gradients.released(events, rows)
            cells = along * sums[: model.scalars]
            model.cells[:] = (1 - self.eta / CELL_VARIANCE) * model.cells + cells
            model.theta[biases] *= 1 - self.eta / BIAS_VARIANCE
            model.theta[biases] += along * sums[biases]
            progress(len(rows))


class PrintedLangevin:
    """The trainer `sgld-paper`."""

    name = "sgld-paper"

    def __init__(self, spec: TrainerSpec, source: RandomSource | None = None) -> None:
        self._spec, self.model = spec, CellModel(spec.sizes)
        self._source = SystemSource() if source is None else source

    @property
    def guarantee(self) -> Guarantee:
        """Return that there is none."""
        return Guarantee(None, float(self._spec.delta), _PAPER)

    def train(self, events: Events, progress: Callable[[int], None]) -> None:
        """Take one printed step for each event."""
        check_events(events, self._spec)
        width = 2 * (self.model.factors + 1)
        for first in range(0, len(events.stars), _BLOCK):
            rows = np.arange(first, min(first + _BLOCK, len(events.stars)))
            normal = discrete_gaussian(_FINE, len(rows) * width, self._source)
            noise = normal.reshape(len(rows), width) / math.sqrt(_FINE)
            self.model.langevin(events, rows, noise, _PRINTED_RATE, _PRINTED_SHRINK)
            progress(len(rows))

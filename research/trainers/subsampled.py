"""Noisy steps over random samples of a retained log: the sample, too, protects (DP-SGD).

Each of `STEPS` steps takes every event slot with probability `RATE`, by bits of the noise's own
source, clips, sums and adds noise (Abadi et al. 2016). The certificate composes the sampled
Gaussian exactly (`SampledSums`). The samples must stay secret: so this needs a retained log and a
trainer that is trusted with it, and nothing like it holds for the order of a stream.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from research.trainers.cell_model import CellModel
from research.trainers.descent import Descent, Schedule
from research.trainers.sampled_sums import SampledSums, sampled_variance
from research.trainers.trainer import (
    BOUND,
    UNPROTECTED,
    Events,
    Guarantee,
    NoisyGradients,
    TrainerSpec,
    check_events,
)
from stream_app.privacy.gaussian.certificate import NoisySum
from stream_app.privacy.randomness import RandomSource, SystemSource

RATE = Fraction(1, 16)
STEPS = 160
_SCHEDULE = Schedule(share=0.4)


class Subsampled:
    """The trainer `subsampled`."""

    name = "subsampled"

    def __init__(
        self,
        spec: TrainerSpec,
        source: RandomSource | None = None,
        rate: Fraction = RATE,
        steps: int = STEPS,
    ) -> None:
        self._spec, self.model, self._rate, self.steps = spec, CellModel(spec.sizes), rate, steps
        self._source = SystemSource() if source is None else source
        variance = None
        if spec.epsilon is not None:
            budget = spec.epsilon, spec.delta
            variance = sampled_variance(BOUND, self.model.size, rate, steps, budget)
        self.gradients = NoisyGradients(self.model, spec.norm, variance, self._source)

    @property
    def certificate(self) -> SampledSums | None:
        """Return all steps; None without noise."""
        if (variance := self.gradients.variance) is None:
            return None
        return SampledSums(NoisySum(BOUND, variance, self.model.size), self._rate, self.steps)

    @property
    def guarantee(self) -> Guarantee:
        """Return (epsilon, delta) of one event."""
        delta, certificate = self._spec.delta, self.certificate
        if certificate is None:
            return Guarantee(None, float(delta), UNPROTECTED)
        return Guarantee(certificate.epsilon(delta), float(delta))

    def train(self, events: Events, progress: Callable[[int], None]) -> None:
        """Train on samples of the events."""
        check_events(events, self._spec)
        expected = self._spec.events * float(self._rate)
        descent = Descent(self.model, _SCHEDULE, self.gradients.deviation, expected)
        for _ in range(self.steps):
            rows = sample(len(events.stars), self._rate, self._source)
            descent.step(self.gradients.released(events, rows))
            progress(len(rows))


def sample(events: int, rate: Fraction, source: RandomSource) -> NDArray[np.int64]:
    """Return the events of one step, each taken with a probability of at most `rate`.

    The probability is rate rounded down to a multiple of 2^-64, which costs no more than rate.
    """
    if rate == 1:
        return np.arange(events)
    limit = np.uint64(int(rate * 2**64))
    return np.flatnonzero(source.words(events) < limit)

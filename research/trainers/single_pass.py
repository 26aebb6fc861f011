"""One pass over the log in micro-batches of event slots: noise for each step, or a tree of noise.

noisy-cells    every micro-batch is released with fresh noise of its own. An event is in one
               micro-batch, so it costs one Gaussian, however many steps there are: mu = 1 / sigma
tree           the prefix sums of the micro-batches are released. Each node of the binary tree over
               the steps has its noise, drawn once, and a prefix is the sum of at most log2 of them
               (Dwork, Naor, Pitassi and Rothblum 2010; Kairouz et al. 2021). An event is in one
               leaf and in the nodes above it: mu^2 = levels / sigma^2

Slots are public and a null event fills one: batches do not shift with the neighbour. That the later
gradients depend on the earlier releases is adaptive composition. No amplification by order is
claimed, since the order of a log is not random.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from research.trainers.cell_model import CellModel
from research.trainers.descent import Descent, Schedule
from research.trainers.trainer import (
    BOUND,
    UNPROTECTED,
    Events,
    Guarantee,
    NoisyGradients,
    TrainerSpec,
    check_events,
)
from stream_app.privacy.gaussian.certificate import (
    CampaignCertificate,
    NoisySum,
    largest_square,
    least_variance,
)
from stream_app.privacy.randomness import RandomSource, SystemSource

_SCHEDULE = Schedule(share=0.8)
_SLOTS = 1  # event slots of a micro-batch for each bias slot


class SinglePass:
    """The two trainers; `name` is `noisy-cells` or `tree`."""

    def __init__(self, name: str, spec: TrainerSpec, source: RandomSource | None = None) -> None:
        self.name, self._spec, self.model = name, spec, CellModel(spec.sizes)
        self.batch = max(1, _SLOTS * self.model.slots)
        self.steps = -(-spec.events // self.batch)
        self.levels = self.steps.bit_length() if name == "tree" else 1
        variance = None
        if spec.epsilon is not None:
            size = self.levels * self.model.size
            square = largest_square(spec.epsilon, spec.delta, size)
            variance = least_variance(BOUND, square / self.levels)
        self.gradients = NoisyGradients(
            self.model, spec.norm, variance, SystemSource() if source is None else source
        )

    @property
    def certificate(self) -> CampaignCertificate | None:
        """Return the noisy sums that one event is in; None without noise."""
        if (variance := self.gradients.variance) is None:
            return None
        return CampaignCertificate((NoisySum(BOUND, variance, self.model.size),) * self.levels)

    @property
    def guarantee(self) -> Guarantee:
        """Return (epsilon, delta) of one event."""
        delta, certificate = self._spec.delta, self.certificate
        if certificate is None:
            return Guarantee(None, float(delta), UNPROTECTED)
        return Guarantee(float(certificate.epsilon(Fraction(delta))), float(delta))

    def train(self, events: Events, progress: Callable[[int], None]) -> None:
        """Train on the events in their order."""
        check_events(events, self._spec)
        descent = Descent(self.model, _SCHEDULE, self._deviation, self.batch)
        release = self._prefixes() if self.name == "tree" else self._fresh
        for step in range(self.steps):
            first = step * self.batch
            rows = np.arange(first, min(first + self.batch, len(events.stars)))
            clipped = self.gradients.clipped(events, rows)
            descent.step(self.gradients.in_stars(release(step + 1, clipped)))
            progress(len(rows))

    @property
    def _deviation(self) -> float:
        """Return the noise of a step's sum; between two prefixes two nodes change on average."""
        return self.gradients.deviation * (2 if self.name == "tree" else 1) ** 0.5

    def _fresh(self, step: int, clipped: NDArray[np.int64]) -> NDArray[np.int64]:  # noqa: ARG002
        return clipped + self.gradients.noise()

    def _prefixes(self) -> Callable[[int, NDArray[np.int64]], NDArray[np.int64]]:
        """Return a function of step 1, 2 .. and its sum: by how much the noisy prefix moves.

        Prefix t is covered by one node for each one among the binary digits of t. Step t opens the
        node that ends at t and closes those that it covers, so a node's noise is drawn once.
        """
        open_nodes: list[NDArray[np.int64]] = []

        def moved(step: int, clipped: NDArray[np.int64]) -> NDArray[np.int64]:
            fresh = self.gradients.noise()
            change = clipped + fresh
            for _ in range((step & -step).bit_length() - 1):
                change -= open_nodes.pop()
            open_nodes.append(fresh)
            return change

        return moved

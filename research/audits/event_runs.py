"""One training with a rating event, or without: what the optimal attacker makes of its sums.

The attacker sees every noisy sum, computes the event's vector at the model of that step, and knows
all other events. Without the event a null event fills its slot, whose vector is zero.

    noisy-cells        the sum of the event's micro-batch, without the others
    tree               the noisy sum of every node over the event's step; a node is the difference
                       of two prefixes
    subsampled, sgld   every step, with the event at the sampling rate. The attacker is also given
                       which of the others were sampled: so they are left out
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from research.audits import likelihood
from research.trainers.langevin import Langevin
from research.trainers.single_pass import SinglePass
from research.trainers.subsampled import Subsampled
from research.trainers.trainer import Events, NoisyGradients, TrainerSpec

Integers = NDArray[np.int64]
Noised = SinglePass | Subsampled | Langevin


class EventSubject(NamedTuple):
    """A trainer by name, its spec, a log, and the place of the event in it."""

    name: str
    spec: TrainerSpec
    log: Events
    event: int


def _silent(count: int) -> None:
    pass


@dataclass(frozen=True)
class _Watched(NoisyGradients):
    """Shows every noisy sum of a trainer's own gradients before the model is moved by it."""

    own: NoisyGradients
    watch: Callable[[Integers], None]

    @classmethod
    def over(cls, own: NoisyGradients, watch: Callable[[Integers], None]) -> _Watched:
        """Return the gradients `own`, watched."""
        return cls(own.model, own.norm, own.variance, own.source, own, watch)

    def clipped(self, events: Events, rows: Integers) -> Integers:
        """Return what the trainer's own would."""
        return self.own.clipped(events, rows)

    def noise(self) -> Integers:
        """Return what the trainer's own would."""
        return self.own.noise()

    def in_stars(self, units: Integers) -> NDArray[np.float64]:
        """Return a noisy sum in stars."""
        self.watch(units)
        return super().in_stars(units)


class EventRun:
    """One training that is watched; `statistic` and `noises` once it ran, and the largest squared
    norm of the event's vectors, `square`."""

    def __init__(
        self, subject: EventSubject, trainer: Noised, present: bool, variance: float
    ) -> None:
        self.trainer, self.present, self._variance = trainer, present, variance
        self.statistic, self.square = 0.0, 0
        self.noises: list[Integers] = []
        log, event = subject.log, subject.event
        stars = log.stars.astype(np.float64)
        if not isinstance(trainer, SinglePass):
            stars = np.full(len(stars), np.nan)
            stars[event] = log.stars[event]
        others = stars.copy()
        others[event] = np.nan
        self._event, self._known = event, Events(log.users, log.items, others)
        self._with = Events(log.users, log.items, stars)
        self._step, self._left = 0, [np.zeros(trainer.model.size, np.int64)]
        self._vector = np.zeros(trainer.model.size, np.int64)
        watch = self._single_pass if isinstance(trainer, SinglePass) else self._sampled
        trainer.gradients = _Watched.over(trainer.gradients, watch)

    def train(self) -> None:
        """Train to the end."""
        self.trainer.train(self._with if self.present else self._known, _silent)

    def _vector_now(self) -> Integers:
        found = self._clipped(self._with, np.array([self._event]))
        self.square = max(self.square, int(np.square(found).sum()))
        return found

    def _clipped(self, events: Events, rows: Integers) -> Integers:
        return self.trainer.gradients.clipped(events, rows)

    def _sampled(self, units: Integers) -> None:
        assert not isinstance(self.trainer, SinglePass)
        certificate = self.trainer.certificate
        assert certificate is not None
        ratio = likelihood.log_ratio(units, self._vector_now(), self._variance)
        self.statistic += likelihood.sampled_ratio(ratio, float(certificate.rate))
        if not self.present:
            self.noises.append(units)

    def _single_pass(self, units: Integers) -> None:
        trainer = self.trainer
        assert isinstance(trainer, SinglePass)
        first = self._step * trainer.batch
        rows = np.arange(first, min(first + trainer.batch, len(self._known.stars)))
        left = units - self._clipped(self._known, rows)
        if first <= self._event < first + trainer.batch:
            self._vector = self._vector_now()
        self._step += 1
        for node, begins in self._nodes(left):
            covers = begins * trainer.batch <= self._event < self._step * trainer.batch
            if covers:
                self.statistic += likelihood.log_ratio(node, self._vector, self._variance)
            self.noises.append(node - self._vector if covers and self.present else node)

    def _nodes(self, left: Integers) -> Iterator[tuple[Integers, int]]:
        """Yield the noisy sum that this step adds to what is known, and the step it begins after:
        of a tree the node that ends at this step."""
        if self.trainer.name != "tree":
            yield left, self._step - 1
            return
        self._left.append(self._left[-1] + left)
        begins = self._step & (self._step - 1)
        yield self._left[-1] - self._left[begins], begins

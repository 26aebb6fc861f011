"""Many trainings with one rating event and without, judged against what the trainer states.

`sgld-paper` states nothing, and adds noise to what a rating touches and nowhere else: that
something was touched is seen with certainty, whatever the noise is, so no epsilon is enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from research.audits import bounds, likelihood
from research.audits.bounds import Finding
from research.audits.event_runs import EventRun, EventSubject, Integers, Noised
from research.audits.noise_law import P_VALUE, NoiseLaw
from research.trainers import build_trainer
from research.trainers.cell_model import CellModel
from research.trainers.langevin import PrintedLangevin
from research.trainers.sampled_sums import SampledSums
from research.trainers.single_pass import SinglePass
from research.trainers.trainer import BOUND, Events, TrainerSpec
from stream_app.privacy.gaussian.certificate import CampaignCertificate
from stream_app.privacy.randomness import RandomSource

Make = Callable[[str, TrainerSpec, RandomSource], object]
Progress = Callable[[int, int], object]
SPENT, CURVE = "an event spends at most what is stated", "the releases are within their curve"
LAW, WITHIN = "the noise has the stated law", "every vector is within its bound"
UNSEEN = "what an event touches is not seen"
ACCUSED = 1e-3


@dataclass(frozen=True)
class EventAudit:
    """What is shown of one trainer; epsilon None: nothing is stated. auc_theory None: unknown."""

    name: str
    epsilon: float | None
    delta: float
    runs: int
    epsilon_bound: float
    auc: float
    auc_theory: float | None
    findings: tuple[Finding, ...]

    @property
    def violated(self) -> tuple[Finding, ...]:
        """The claims that were shown to be false."""
        return tuple(each for each in self.findings if not each.holds)


@dataclass(eq=False)
class _World:
    """The runs with the event, or without it."""

    statistics: list[float] = field(default_factory=list)
    square: int = 0


def audit_trainer(
    subject: EventSubject,
    runs: int,
    source: RandomSource,
    make: Make = build_trainer,
    progress: Progress = lambda done, total: None,  # noqa: ARG005 (a silent default)
) -> EventAudit:
    """Return what `runs` trainings with the event, and as many without, show."""
    if runs < 10:
        raise ValueError(f"{runs} runs: 10 at least in each of the two worlds")
    if subject.name == PrintedLangevin.name:
        return _audit_printed(subject, runs, source)
    first = make(subject.name, subject.spec, source)
    assert isinstance(first, Noised)
    certificate, variance = first.certificate, first.gradients.variance
    assert certificate is not None
    assert variance is not None
    law, worlds = NoiseLaw(int(variance)), (_World(), _World())
    for number in range(2 * runs):
        trainer = make(subject.name, subject.spec, source)
        assert isinstance(trainer, Noised)
        run = EventRun(subject, trainer, number % 2 == 0, float(variance))
        run.train()
        world = worlds[number % 2]
        world.statistics.append(run.statistic)
        world.square = max(world.square, run.square)
        for noise in run.noises:
            law.add(noise)
        if number % 10 == 9:
            progress(number + 1, 2 * runs)
    square = _square(certificate)
    return _judged(subject, first, worlds, law, square)


def _square(certificate: object) -> float:
    """Return mu^2 of a certificate; of sampled sums that of their limit (Dong, Roth and Su 2022,
    Corollary 5.4), to place the thresholds by."""
    if isinstance(certificate, CampaignCertificate):
        return float(certificate.square)
    assert isinstance(certificate, SampledSums)
    growth = math.expm1(float(certificate.each.square))
    return float(certificate.rate) ** 2 * certificate.steps * growth


def _judged(
    subject: EventSubject,
    trainer: Noised,
    worlds: tuple[_World, _World],
    law: NoiseLaw,
    square: float,
) -> EventAudit:
    guarantee = trainer.guarantee
    assert guarantee.epsilon is not None
    present, absent = (np.array(each.statistics) for each in worlds)
    cuts = bounds.thresholds(square)
    shown = bounds.measured(present, absent, cuts, guarantee.delta)
    p_values = law.p_values()
    worst = min(p_values, key=lambda name: p_values[name])
    longest = max(each.square for each in worlds)
    findings = [
        Finding(SPENT, shown.epsilon <= guarantee.epsilon, f"at least {shown.epsilon:.3f}"),
        Finding(WITHIN, longest <= BOUND**2, f"a norm of {longest**0.5:.1f} of {BOUND}"),
        Finding(
            LAW,
            p_values[worst] >= P_VALUE,
            f"{law.ratio:.4f} of the variance; smallest p {p_values[worst]:.2g}: {worst}",
        ),
    ]
    gaussian = isinstance(trainer, SinglePass)
    if gaussian:
        sure = bounds.measured(present, absent, cuts, guarantee.delta, ACCUSED)
        stated = f"mu at least {sure.mu:.3f}, and {math.sqrt(square):.3f} is stated"
        findings.append(Finding(CURVE, sure.mu**2 <= square, stated))
    return EventAudit(
        subject.name,
        guarantee.epsilon,
        guarantee.delta,
        len(present),
        shown.epsilon,
        likelihood.auc(present, absent),
        likelihood.theory_auc(square) if gaussian else None,
        tuple(findings),
    )


def _silent(count: int) -> None:
    pass


def _audit_printed(subject: EventSubject, runs: int, source: RandomSource) -> EventAudit:
    """Look at the numbers that the event alone touches: have they moved?"""
    spec, log, event = subject.spec, subject.log, subject.event
    rest = np.flatnonzero(np.arange(len(log.stars)) != event)
    others = Events(log.users[rest], log.items[rest], log.stars[rest])
    start = CellModel(spec.sizes)
    own = _touched(start, log, np.array([event])) & ~_touched(start, log, rest)
    worlds: tuple[list[float], list[float]] = ([], [])
    for number in range(2 * runs):
        trainer = PrintedLangevin(spec, source)
        trainer.train(others if number % 2 else log, _silent)
        moved = bool((trainer.model.theta[own] != start.theta[own]).any())
        worlds[number % 2].append(1.0 if moved else -1.0)
    present, absent = (np.array(each) for each in worlds)
    delta = float(spec.delta)
    shown = bounds.measured(present, absent, (0.0,), delta)
    seen = int((present > 0).sum()), int((absent > 0).sum())
    unseen = Finding(
        UNSEEN, shown.epsilon == 0, f"seen in {seen[0]} runs with it and {seen[1]} without"
    )
    area = likelihood.auc(present, absent)
    return EventAudit(subject.name, None, delta, runs, shown.epsilon, area, None, (unseen,))


def _touched(model: CellModel, events: Events, rows: Integers) -> NDArray[np.bool_]:
    """Return which numbers these events touch (size,)."""
    found = np.zeros(model.size, np.bool_)
    for row in rows:
        sums = np.zeros(model.size, np.int64)
        model.add_clipped(events, np.array([row]), 1.0, 2**20, sums)
        found |= sums != 0
    return found

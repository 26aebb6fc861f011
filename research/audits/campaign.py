"""Many campaigns with one person and without, and what the optimal attacker makes of them.

All runs do one stage, then all the next: a table of noise is made once. A run is a campaign of its
own number under the parties' same keys, so that noise which does not depend on the plan is seen to
agree with that of another campaign.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import msgspec
import numpy as np
from nacl import bindings
from numpy.typing import NDArray

from research.audits import bounds, likelihood
from research.audits.bounds import Finding
from research.audits.campaign_run import Code, MakeKeys, Run, Seen
from research.audits.noise_law import P_VALUE, NoiseLaw
from stream_app.aggregation.keys import PartyKeys, Role
from stream_app.campaigns.plan import Campaign, Stage
from stream_app.campaigns.planning import certificate
from stream_app.campaigns.rated_items import RatedItems
from stream_app.campaigns.sealing import within
from stream_app.privacy.randomness import RandomSource

Progress = Callable[[int, int], object]
ACCUSED = 1e-3  # of an honest curve, by its bound; the counts make it a thousand times less
_LEAST_RUNS = 10
MOST_RUNS = 100_000


@dataclass(frozen=True)
class StageFigures:
    """A stage alone. used: of the bound, the person's mean squared norm. epsilon: what the stage
    alone may cost at the campaign's delta. noise: the variance that was seen, in units of the
    plan's."""

    kind: str
    size: int
    bound: int
    variance: int
    epsilon: float
    used: float
    noise: float
    auc: float
    auc_theory: float
    epsilon_bound: float


@dataclass(frozen=True)
class CampaignAudit:
    """What the attacker shows of a whole campaign.

    epsilon_bound: holds with probability .95 whatever the mechanism. epsilon_curve: what the bound
    of mu is on the Gaussian curve; epsilon_estimate: the same without the error of the sample.
    """

    mode: str
    epsilon: float
    delta: float
    runs: int
    epsilon_bound: float
    epsilon_curve: float
    epsilon_estimate: float
    auc: float
    auc_theory: float
    stages: tuple[StageFigures, ...]
    findings: tuple[Finding, ...]

    @property
    def violated(self) -> tuple[Finding, ...]:
        """The claims that were shown to be false."""
        return tuple(each for each in self.findings if not each.holds)


class Subject(NamedTuple):
    """A plan without keys, and everybody's ratings over its scope, those of the person last."""

    plan: Campaign
    own: Sequence[RatedItems]


def audit(
    subject: Subject,
    runs: int,
    source: RandomSource,
    code: Code | None = None,
    progress: Progress = lambda done, total: None,  # noqa: ARG005 (a silent default)
) -> CampaignAudit:
    """Return what `runs` campaigns with the person, and as many without, show.

    Every other pair of split mode has the other party curious. Raises ValueError for too few runs.
    """
    if not _LEAST_RUNS <= runs <= MOST_RUNS:
        raise ValueError(f"{runs} runs: {_LEAST_RUNS} to {MOST_RUNS:,} in each of the two worlds")
    code = Code() if code is None else code
    plan, everyone = _started(subject, runs, source, code)
    judged: list[_StageLedger] = []
    total = len(plan.stages) * len(everyone)
    for index, stage in enumerate(plan.stages):
        ledger = _StageLedger(stage, before=judged[-1] if judged else None)
        for done, run in enumerate(everyone, 1):
            ledger.take(run, run.stage(index))
            if done % _LEAST_RUNS == 0:
                progress(index * len(everyone) + done, total)
        judged.append(ledger)
    progress(total, total)
    return _judged(plan, judged, runs)


def _started(
    subject: Subject, runs: int, source: RandomSource, code: Code
) -> tuple[Campaign, list[Run]]:
    """Return the plan with keys, and the runs, with and without the person in turn."""
    plan = subject.plan
    roles = (Role.CENTRAL,) if plan.parties == 1 else (Role.A, Role.B)
    keys = [make_keys(role, source, code.keys) for role in roles]
    plan = msgspec.structs.replace(plan, keys=tuple(each.public.hex() for each in keys))
    everyone = []
    for number in range(2 * runs):
        campaign = msgspec.structs.replace(plan, number=plan.number + number)
        curious = number // 2 % 2 if plan.parties == 2 else None
        everyone.append(Run(code, campaign, keys, subject.own, number % 2 == 0, curious, source))
    return plan, everyone


def make_keys(role: Role, source: RandomSource, kind: MakeKeys = PartyKeys) -> PartyKeys:
    """Return the keys of a party from the words of `source`."""
    secret, noise = (source.words(4).astype("<u8").tobytes() for _ in range(2))
    return kind(role, bindings.crypto_scalarmult_base(secret), secret, noise)


class _StageLedger:
    """What was seen of one stage over all runs."""

    def __init__(self, stage: Stage, before: _StageLedger | None) -> None:
        self.stage = stage
        self.law = NoiseLaw(stage.variance)
        self.ratios: tuple[list[float], list[float]] = ([], [])
        self.squares: list[float] = []
        self.beyond = self.second = 0
        self.noises: list[NDArray[np.int64]] = []
        self._before = before

    def take(self, run: Run, seen: Seen) -> None:
        """Take what the attacker has of one run."""
        stage, vector = self.stage, seen.vector
        self.squares.append(float(np.square(vector.astype(np.float64)).sum()))
        self.beyond += not within(vector, stage.bound)
        self.second += len(seen.released) - 1
        self.ratios[not run.present].append(
            sum(likelihood.log_ratio(each, vector, stage.variance) for each in seen.released)
        )
        noise = seen.released[0] - (vector if run.present else 0)
        self.law.add(noise)
        if self.noises:  # of the campaign before
            self.law.pair(noise, self.noises[-1], stage.variance)
        self.noises.append(noise)
        if self._before is not None:
            other = self._before.stage.variance
            earlier = self._before.noises[len(self.noises) - 1]
            self.law.pair(noise, earlier, math.sqrt(stage.variance * other))

    def figures(self, delta: Fraction) -> StageFigures:
        """Return the figures of the stage alone."""
        stage, cost = self.stage, certificate([self.stage])
        present, absent = map(np.array, self.ratios)
        mean = float(np.mean(self.squares))
        shown = bounds.measured(
            present, absent, bounds.thresholds(float(cost.square)), float(delta)
        )
        return StageFigures(
            kind=stage.kind,
            size=stage.size,
            bound=stage.bound,
            variance=stage.variance,
            epsilon=float(cost.epsilon(delta)),
            used=mean / stage.bound**2,
            noise=self.law.ratio,
            auc=likelihood.auc(present, absent),
            auc_theory=likelihood.theory_auc(mean / stage.variance),
            epsilon_bound=shown.epsilon,
        )


def _judged(plan: Campaign, stages: list[_StageLedger], runs: int) -> CampaignAudit:
    present, absent = (np.sum([each.ratios[world] for each in stages], axis=0) for world in (0, 1))
    square = float(certificate(plan.stages).square)
    delta = float(plan.delta)
    cuts = bounds.thresholds(square)
    shown = bounds.measured(present, absent, cuts, delta)
    sure = bounds.measured(present, absent, cuts, delta, ACCUSED)
    reached = sum(float(np.mean(each.squares)) / each.stage.variance for each in stages)
    return CampaignAudit(
        mode="split" if plan.parties == 2 else "central",
        epsilon=float(plan.epsilon),
        delta=delta,
        runs=runs,
        epsilon_bound=shown.epsilon,
        epsilon_curve=bounds.epsilon_of_mu(shown.mu, delta),
        epsilon_estimate=bounds.epsilon_of_mu(shown.mu_estimate, delta),
        auc=likelihood.auc(present, absent),
        auc_theory=likelihood.theory_auc(reached),
        stages=tuple(each.figures(plan.delta) for each in stages),
        findings=(
            Finding(
                f"a person spends at most epsilon {float(plan.epsilon):g}",
                shown.epsilon <= float(plan.epsilon),
                f"at least {shown.epsilon:.3f}",
            ),
            Finding(
                "what is released is within its Gaussian curve",
                sure.mu**2 <= square,
                f"mu at least {sure.mu:.3f}, and {math.sqrt(square):.3f} is stated",
            ),
            *_of_stages(stages),
        ),
    )


def _of_stages(stages: list[_StageLedger]) -> list[Finding]:
    """Return what holds of every stage."""
    beyond = sum(each.beyond for each in stages)
    second = sum(each.second for each in stages)
    tests = [
        (p, test, each.stage.kind) for each in stages for test, p in each.law.p_values().items()
    ]
    law = min(each for each in tests if each[1] != "agreement")
    agreement = min(each for each in tests if each[1] == "agreement")
    most = P_VALUE / len(tests)
    return [
        Finding("every vector is within its bound", not beyond, f"{beyond} beyond it"),
        Finding("a stage is released once", not second, f"{second} second sums"),
        Finding("the noise has the law of the plan", law[0] >= most, _worst(law)),
        Finding("no two noises agree", agreement[0] >= most, _worst(agreement)),
    ]


def _worst(test: tuple[float, str, str]) -> str:
    p, name, kind = test
    return f"smallest p {p:.2g}: {name} of {kind}"


def crowd(items: int, people: int, source: RandomSource) -> list[RatedItems]:
    """Return generated ratings of so many people; the last has rated everything, and so reaches the
    bound of a stage."""
    found = []
    for number in range(people):
        words = source.words(2 * items).reshape(2, items)
        kept = words[0] % 4 > 0 if number < people - 1 else np.ones(items, np.bool_)
        stars = 1 + (words[1] % 5).astype(np.float64)
        places = np.flatnonzero(kept)
        found.append(RatedItems(places, stars[places], stars[places] >= 4))
    return found

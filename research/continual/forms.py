"""How the public side is refreshed over rounds, within one budget for all of them.

    again    every round is a whole campaign of everybody so far, with 1 / T of mu^2; its side
             replaces the one before
    running  a person contributes once, to every stage, in the round in which the person joined;
             stages are released as running sums, whose noise is that of a `Factor`

Either way (epsilon, delta) covers all that a person sends in all rounds. The round in which
somebody contributes is public, in both.

In the running form contributions of earlier rounds are residuals of earlier sides. What a stage
gives after round t starts from the mean of the sides that its contributions were made from, each
with its number of people as weight, as if all had been made from that mean. Directions of taste
keep their meaning: those of the head are turned to the last ones, by the closest rotation
(Schoenemann 1966).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from research.continual.running_factor import Factor
from research.continual.running_sums import RunningSum, running_sum
from research.continual.timeline import Timeline
from stream_app.campaigns.features import Features, columns
from stream_app.campaigns.learning import stars_learning as learning
from stream_app.campaigns.plan import Campaign, Stage, Wanted
from stream_app.campaigns.planning import LEAST, stages
from stream_app.campaigns.rated_items import RatedItems
from stream_app.campaigns.stars import contributions as stars
from stream_app.campaigns.stars.recipe import recipe
from stream_app.campaigns.stars.side import StarsSide
from stream_app.evaluation.campaigns.runs import Budget, exact_sum, run
from stream_app.privacy.gaussian.certificate import NoisySum, largest_square
from stream_app.privacy.randomness import RandomSource

Floats = NDArray[np.float64]
BOUND = 256  # of a contribution to a running sum: rows are 16 times and more as wide


class Rounds(NamedTuple):
    """The ratings, the row after which each round ends (T,), and genres and years of the items of
    the scope.

    `contributed` is called with how many contributions were just made.
    """

    line: Timeline
    ends: tuple[int, ...]
    features: Features | None
    contributed: Callable[[int], object]

    def start(self, factors: int) -> StarsSide:
        """Return what is public before any stage."""
        return StarsSide.start(columns(self.features, len(self.line.scope)), factors)


def again(rounds: Rounds, budget: Budget, source: RandomSource) -> Iterator[StarsSide]:
    """Yield the public side after each round of whole campaigns."""
    planned = again_stages(budget, len(rounds.line.scope), len(rounds.ends))
    for number, (end, found) in enumerate(zip(rounds.ends, planned, strict=True), 1):
        plan = _plan(rounds, budget, number, found)
        own = [rounds.line.own(user, end) for user in rounds.line.joined(0, end)]
        side = run(plan, own, source, contributed=rounds.contributed).side.stars
        assert side is not None
        yield side


def _plan(rounds: Rounds, budget: Budget, number: int, found: tuple[Stage, ...]) -> Campaign:
    scope = tuple(range(len(rounds.line.scope)))
    plan = partial(Campaign, number, budget.epsilon, budget.delta, budget.parties, scope, found)
    return plan() if rounds.features is None else plan(features=rounds.features)


def again_stages(budget: Budget, items: int, rounds: int) -> list[tuple[Stage, ...]]:
    """Return the stages of each round, which together keep a person within the budget."""
    share = Fraction(1, rounds)
    wanted = recipe(budget.epsilon, share).wanted(items, share)
    found = stages(budget.epsilon, budget.delta, wanted * rounds)
    return [found[k : k + len(wanted)] for k in range(0, len(found), len(wanted))]


def running_noise(
    budget: Budget, items: int, factor: Factor
) -> tuple[tuple[Wanted, ...], tuple[NoisySum, ...]]:
    """Return the stages and the noise of each, so that a person who contributes once to each stays
    within the budget."""
    wanted = tuple(recipe(budget.epsilon).wanted(items))
    size = factor.rounds * sum(each.size for each in wanted)
    square = largest_square(budget.epsilon, budget.delta, size)
    sums = (running_sum(each.share * square, each.size, factor, most=BOUND) for each in wanted)
    return wanted, tuple(sums)


def running(
    rounds: Rounds, budget: Budget, source: RandomSource, factor: Factor
) -> Iterator[StarsSide]:
    """Yield the public side after each round of running sums."""
    chosen = recipe(budget.epsilon)
    wanted, noises = running_noise(budget, len(rounds.line.scope), factor)
    each_stage = [
        _RunningStage(_stage(each, noise), noise, factor, budget.parties)
        for each, noise in zip(wanted, noises, strict=True)
    ]
    head, turned = np.empty(0, np.intp), np.zeros((0, 0))
    for first, end in pairwise((0, *rounds.ends)):
        own = [rounds.line.own(user, end) for user in rounds.line.joined(first, end)]
        side = rounds.start(chosen.factors)
        for stage in each_stage:
            side = stage.after(side, own, chosen.head, source)
            rounds.contributed(len(own))
            if stage.kind == "bias" and len(head):
                side = replace(side, head=head)
            if stage.kind == "head":
                head = side.head  # of all rounds: a coordinate is one pair of items
                turned = _turned(side.vectors, turned) if len(turned) else side.vectors
                side = replace(side, vectors=turned)
        yield side


def _stage(wanted: Wanted, noise: NoisySum) -> Stage:
    return Stage(
        kind=wanted.kind,
        size=wanted.size,
        bound=noise.bound,
        variance=int(noise.variance),
        share=wanted.share,
        least=LEAST,
        deadline_cuts=1,
    )


class _RunningStage:
    """One stage: its running sum, and the sides that its contributions were made from."""

    def __init__(self, stage: Stage, noise: NoisySum, factor: Factor, parties: int) -> None:
        self.kind = stage.kind
        self._stage, self._sum = stage, RunningSum(factor, noise, parties)
        self._people = 0
        self._biases, self._vectors = np.zeros(1), np.zeros((1, 1))  # means of sides

    def after(
        self, side: StarsSide, own: list[RatedItems], head_items: int, source: RandomSource
    ) -> StarsSide:
        """Return the side after the contributions of one more round, made from `side`."""
        sent = (stars.contribution(self._stage, side, rated) for rated in own)
        self._sum.add(exact_sum(sent, self._stage), source)
        side = self._from_mean(side, len(own))
        found = learning.NoisyStage(
            np.rint(self._sum.estimate()).astype(np.int64),
            self._stage.bound,
            int(np.ceil(self._sum.variance)),
            self._people,
        )
        return learning.learn(self.kind, side, found, head_items)

    def _from_mean(self, side: StarsSide, people: int) -> StarsSide:
        """Return the side at the mean of those that contributions of this stage were made from."""
        self._people += people
        weight = people / max(self._people, 1)
        vectors = side.vectors @ side.spread
        self._biases = self._biases + weight * (side.biases - self._biases)
        self._vectors = self._vectors + weight * (vectors - self._vectors)
        if self.kind == "bias":
            return replace(side, biases=self._biases)
        if self.kind == "refine":
            return replace(side, biases=self._biases, vectors=self._vectors @ side.whitening)
        return side


def _turned(vectors: Floats, last: Floats) -> Floats:
    """Return the vectors (n, d) after the rotation that brings them closest to the last ones."""
    left, _, right = np.linalg.svd(vectors.T @ last)
    return np.asarray(vectors @ (left @ right))

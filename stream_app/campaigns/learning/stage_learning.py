"""The kinds of stages: what the noisy sum of each adds to the public item side.

A kind is a row of `KINDS`: how the side is computed from its sum and from what the stages before it
gave. Which plans can be learned is what `planning.check_stages` takes.

*Together*: directions of taste from the noisy sum of x x' / |x|^2.

    M = sum + noise;  s = noise of an entry off the diagonal;  edge = 2 s sqrt n     (Wigner 1958)
    keep eigenvalues l > edge;  strength = sqrt(l^2 - edge^2)
    weight = strength / (strength + ridge),  ridge = .02 trace M

For M = signal + noise the strength is what is left of an eigenvalue l = t + edge^2 / 4t and of the
cosine 1 - edge^2 / 4t^2 of its vector: t (1 - edge^2 / 4t^2) (Benaych-Georges and Nadakuditi 2011,
section 3.1). The trace is the number of people who like anything in the scope, noise apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from stream_app.campaigns.contribution_vectors import symmetric_matrix, triangle_items
from stream_app.campaigns.learning import stars_learning as stars
from stream_app.campaigns.learning.stars_learning import NoisyStage
from stream_app.campaigns.plan import Campaign
from stream_app.campaigns.planning import check_stages
from stream_app.campaigns.public_side import PublicSide
from stream_app.campaigns.stage_vectors import stars_before
from stream_app.campaigns.stars import shape
from stream_app.campaigns.together import TogetherSide
from stream_app.kernels.linear_algebra import symmetric_eigen

Learn = Callable[[Campaign, int, PublicSide, NoisyStage], PublicSide]
"""(plan, index of the stage, side so far, what was released) -> side."""


def can_learn(campaign: Campaign) -> bool:
    """Return whether every stage is of a known kind and has the size that this kind gives it."""
    try:
        check_stages(campaign)
    except ValueError:
        return False
    return True


def learn(
    campaign: Campaign, index: int, side: PublicSide, noisy: NDArray[np.int64], people: int
) -> PublicSide:
    """Return the public side after stage `index`, from its noisy sum (size,) over so many people
    and the side before.

    Raises ArithmeticError where nothing can be learned from the sum.
    """
    stage = campaign.stages[index]
    found = NoisyStage(noisy, stage.bound, campaign.parties * stage.variance, people)
    return KINDS[stage.kind](campaign, index, side, found)


def _learn_together(
    campaign: Campaign,  # noqa: ARG001 (the signature of every kind)
    index: int,  # noqa: ARG001
    side: PublicSide,
    found: NoisyStage,
) -> PublicSide:
    learned = learn_directions(found.integers, found.bound, found.variance)
    return replace(side, together=learned)


def _learn_stars(campaign: Campaign, index: int, side: PublicSide, found: NoisyStage) -> PublicSide:
    sizes = shape.shape_of(campaign.stages, len(campaign.scope))
    assert sizes is not None
    before = stars_before(campaign, index, side)
    kind = campaign.stages[index].kind
    return replace(side, stars=stars.learn(kind, before, found, sizes.head))


RIDGE = 0.02


def learn_directions(noisy: NDArray[np.int64], bound: int, variance: int) -> TogetherSide:
    """Return the item side of a noisy sum (n (n + 1) / 2,) in units of 1 / bound.

    `variance`: of all noise in an entry, in squared grid units; with two parties twice that of one.
    """
    items = triangle_items(len(noisy))
    matrix = symmetric_matrix(noisy / float(bound))
    values, rows = np.zeros(items), np.zeros((items, items))
    if not symmetric_eigen(matrix, values, rows):
        raise ArithmeticError(f"eigenvalues of {items} items did not converge")
    edge = 2 * math.sqrt(variance * items / 2) / bound
    kept = values > edge
    strengths = np.sqrt(values[kept] * values[kept] - edge * edge)
    # In integers: a sum of floats depends on its order.
    people = max(int(noisy[:items].sum()) / bound, 1.0)
    weights = strengths / (strengths + RIDGE * people)
    return TogetherSide(rows[kept].T.astype(np.float32), weights.astype(np.float32))


KINDS: Mapping[str, Learn] = {
    "together": _learn_together,
    **dict.fromkeys((*shape.BEFORE, *shape.PASS), _learn_stars),
}

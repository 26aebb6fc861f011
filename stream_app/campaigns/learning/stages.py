"""The kinds of stages: what the noisy sum of each adds to the public item side.

A kind is a row of `KINDS`: whether a stage of a plan can be of it, and how the side is computed
from its sum and from what the stages before it gave.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stream_app.campaigns import triangle
from stream_app.campaigns.learning import together
from stream_app.campaigns.plan import Campaign, Stage
from stream_app.campaigns.public_side import PublicSide

Noisy = NDArray[np.int64]


@dataclass(frozen=True)
class Kind:
    """fits(stage, items of the scope); learn(side so far, stage, variance of all noise in an
    entry, noisy sum)."""

    fits: Callable[[Stage, int], bool]
    learn: Callable[[PublicSide, Stage, int, Noisy], PublicSide]


def can_learn(campaign: Campaign) -> bool:
    """Return whether every stage is of a known kind and has the size that this kind gives it."""
    scope = len(campaign.scope)
    return all(
        stage.kind in KINDS and KINDS[stage.kind].fits(stage, scope) for stage in campaign.stages
    )


def learn(campaign: Campaign, index: int, side: PublicSide, noisy: Noisy) -> PublicSide:
    """Return the public side after stage `index`, from its noisy sum (size,) and the side before.

    Raises ArithmeticError where nothing can be learned from the sum.
    """
    stage = campaign.stages[index]
    variance = campaign.parties * stage.variance
    return KINDS[stage.kind].learn(side, stage, variance, noisy)


def _fits_together(stage: Stage, scope: int) -> bool:
    return stage.size in {triangle.length(items) for items in range(2, scope + 1)}


def _learn_together(side: PublicSide, stage: Stage, variance: int, noisy: Noisy) -> PublicSide:
    return replace(side, together=together.learn(noisy, stage.bound, variance))


KINDS: Mapping[str, Kind] = {"together": Kind(_fits_together, _learn_together)}

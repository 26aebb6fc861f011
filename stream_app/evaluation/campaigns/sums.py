"""The noisy sum of one stage over a population of devices."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.campaigns.grid import is_within
from stream_app.campaigns.plan import Stage
from stream_app.privacy.gaussian import discrete_gaussian
from stream_app.privacy.randomness import RandomSource

DELTA = Fraction(1, 10**6)
MODES: dict[str, Literal[1, 2]] = {"central": 1, "split": 2}
"""How many parties add noise: one trusted aggregator, or two of which one is honest."""


class Budget(NamedTuple):
    """What a person spends on one campaign, and by which mode."""

    epsilon: Fraction
    delta: Fraction
    mode: str

    @property
    def parties(self) -> Literal[1, 2]:
        """How many parties add noise."""
        return MODES[self.mode]


def exact_sum(contributions: Iterable[NDArray[np.int32]], stage: Stage) -> NDArray[np.int64]:
    """Return the sum (stage.size,) of the contributions.

    Raises ValueError for a contribution of another length or longer than the bound: the budget
    would not hold.
    """
    total = np.zeros(stage.size, np.int64)
    for each in contributions:
        if len(each) != stage.size or not is_within(each, stage.bound):
            raise ValueError(
                f"stage {stage.kind}: a contribution of {len(each)} integers is outside its size "
                f"{stage.size} or bound {stage.bound}"
            )
        total += each
    return total


def noisy_sum(
    contributions: Iterable[NDArray[np.int32]], stage: Stage, parties: int, source: RandomSource
) -> NDArray[np.int64]:
    """Return the sum (stage.size,) of the contributions, with the noise of each party.

    Raises ValueError as `exact_sum` does.
    """
    total = exact_sum(contributions, stage)
    for _ in range(parties):
        total += discrete_gaussian(Fraction(stage.variance), stage.size, source)
    return total

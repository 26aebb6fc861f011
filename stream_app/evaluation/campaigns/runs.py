"""The noisy sum of a stage, and a whole campaign, over people in one process.

Vectors, sums and learning are those of the live system (`campaigns/together.py`,
`campaigns/learning.py`); sealing, the log and the parties' own noise are not here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.campaigns import learning, together
from stream_app.campaigns.contribution_vectors import is_within
from stream_app.campaigns.plan import Campaign, Stage
from stream_app.campaigns.public_side import PublicSide
from stream_app.campaigns.rated_items import RatedItems
from stream_app.privacy.gaussian.sampling import discrete_gaussian
from stream_app.privacy.randomness import RandomSource

_TOGETHER = 100


class Run(NamedTuple):
    """The public side after every stage, and seconds of process time a stage, over all people."""

    side: PublicSide
    seconds: list[float]


def run(
    plan: Campaign,
    own: Sequence[RatedItems],
    source: RandomSource,
    *,
    contributed: Callable[[int], object] = lambda people: None,  # noqa: ARG005
) -> Run:
    """Let every person contribute to every stage and return what is public in the end.

    `contributed` is called with how many people have just contributed.
    """
    side, seconds = PublicSide(plan.number, plan.scope), []
    for index, stage in enumerate(plan.stages):
        sent, clock = _sent(plan, index, own), _Clock()
        summed = noisy_sum(clock.timed(sent, contributed), stage, plan.parties, source)
        side = learning.learn(plan, index, summed)
        seconds.append(clock.seconds)
    return Run(side, seconds)


def _sent(plan: Campaign, index: int, own: Sequence[RatedItems]) -> Iterator[NDArray[np.int32]]:
    return (together.contribution(plan.stages[index], rated) for rated in own)


class _Clock:
    """Measures what an iterator takes, apart from what is done with its items."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def timed(
        self, sent: Iterator[NDArray[np.int32]], contributed: Callable[[int], object]
    ) -> Iterator[NDArray[np.int32]]:
        """Yield every item, and report them by the hundred and at the end."""
        people, began = 0, time.process_time()
        for each in sent:
            self.seconds += time.process_time() - began
            yield each
            people += 1
            if people % _TOGETHER == 0:
                contributed(_TOGETHER)
            began = time.process_time()
        contributed(people % _TOGETHER)


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

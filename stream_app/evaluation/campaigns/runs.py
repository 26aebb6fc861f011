"""A whole campaign over people in one process: the stages of a plan, as they are run live.

Vectors, sums and learning are those of the live system (`campaigns/stage_vectors.py`,
`campaigns/learning/stages.py`); only sealing, the log and the parties' own noise are not here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.campaigns import stage_vectors
from stream_app.campaigns.learning import stages
from stream_app.campaigns.plan import Campaign
from stream_app.campaigns.public_side import PublicSide
from stream_app.campaigns.rated_items import RatedItems
from stream_app.evaluation.campaigns.sums import noisy_sum
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
    side, seconds = PublicSide.begin(plan), []
    for index, stage in enumerate(plan.stages):
        sent, clock = _sent(plan, index, side, own), _Clock()
        summed = noisy_sum(clock.timed(sent, contributed), stage, plan.parties, source)
        side = stages.learn(plan, index, side, summed, len(own))
        seconds.append(clock.seconds)
    return Run(side, seconds)


def _sent(
    plan: Campaign, index: int, side: PublicSide, own: Sequence[RatedItems]
) -> Iterator[NDArray[np.int32]]:
    for rated in own:
        yield stage_vectors.contribution(plan, index, side, rated)


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

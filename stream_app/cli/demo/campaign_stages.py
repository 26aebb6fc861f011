"""A campaign under way, with a population: stage by stage until all sums are released.

    open (by the worker) -> every device contributes -> closed here -> parties -> released

The worker that owns the clock closes a stage at its deadline, since it cannot know who is missing.
Where the whole population is at hand the stage is closed as soon as the last device has
contributed, as `murmurec rounds stage close` does. Then the exact sum is known, too: what is
released must differ from it by noise of the variance that the plan states, once for each party.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from producers.fleet.campaigning import Fleet, ScopedRatings, StageProgress, under_way
from producers.ranking import campaign_side
from stream_app.aggregation.coordinator import Coordinator, Positions
from stream_app.aggregation.round_topics import RoundTopic
from stream_app.campaigns import together
from stream_app.campaigns.public_side import PublishedSide
from stream_app.campaigns.rounds import Phase, StageState
from stream_app.errors import UserError
from stream_app.kafka.clients import Connection
from stream_app.wire.campaigns.plan import Campaign

_WAIT_SECONDS = 0.2
_PUBLISHED_SECONDS = 60.0
_LEAST_TOLERANCE = 0.05
_TOLERANCE_IN_DEVIATIONS = 8.0

Check = Callable[[], object]


@dataclass(frozen=True)
class StageRun:
    """One stage: what it took, and the ratio of its noise to what the plan states.

    sending: seconds until the broker had every contribution; summing: from the close until the sum
    was released. bytes: of one contribution as it is sent. visitors: records that the population
    has not sent.
    """

    index: int
    kind: str
    contributions: int
    bytes: int
    sending: float
    summing: float
    noise_ratio: float = math.nan
    visitors: int = 0

    def check(self, people: int, integers: int) -> None:
        """Raise UserError unless every device counted once and the noise is what is stated."""
        if not people <= self.contributions <= people + self.visitors:
            raise UserError(
                f"stage {self.index}: {self.contributions} contributions of {people} devices "
                "counted: please report this as a defect"
            )
        allowed = max(_LEAST_TOLERANCE, _TOLERANCE_IN_DEVIATIONS / math.sqrt(2 * integers))
        if not abs(self.noise_ratio - 1) <= allowed:
            raise UserError(
                f"stage {self.index}: the noise of its sum has {self.noise_ratio:.3f} of the "
                "standard deviation that the plan states: please report this as a defect"
            )


def conduct(
    fleet: Fleet,
    log: RoundTopic,
    contributions: Positions,
    check: Check,
    show: Callable[[StageProgress], object],
    *,
    exact: bool = True,
    visitors: bool = False,
) -> Iterator[StageRun]:
    """Let the fleet contribute to every stage and yield each once it is released.

    `check` raises where a process has ended. With `exact` the noise is measured against the exact
    sum of the population, computed from the same public side, after the stage; the vector of a
    visitor is below what can be measured. With `visitors` a stage is not closed before one has
    contributed. Raises UserError where a stage is aborted.
    """
    campaign, coordinator = under_way(log.catch_up()), Coordinator(log, contributions)
    ratings, began, ended = ScopedRatings(fleet.population, campaign), 0.0, -1
    for step in fleet.follow(log):
        show(step)
        if step.sent + step.before == 0:
            began = time.monotonic()
        if step.done < step.total or step.stage == ended:
            continue
        ended = step.stage
        fleet.relay.settle()
        sent = closed = time.monotonic()
        if visitors:
            while not _others(log, contributions, step.total):
                check()
                time.sleep(_WAIT_SECONDS)
            closed = time.monotonic()
        stage = coordinator.close_stage()
        while stage.phase in (Phase.CLOSED, Phase.OPENED, Phase.COUNTED):
            check()
            log.wait(_WAIT_SECONDS)
        if stage.aborted is not None:
            raise UserError(f"stage {stage.index} ended without a result ({stage.aborted})")
        done = StageRun(
            stage.index,
            stage.stage.kind,
            stage.contributions,
            step.bytes // max(step.sent, 1),
            sent - began,
            time.monotonic() - closed,
            visitors=sum(stage.ends) - sum(stage.begins) - step.total,
        )
        if exact:
            total = exact_sum(stage, fleet.population.devices, ratings)
            done = replace(done, noise_ratio=noise_ratio(campaign, stage, total))
        yield done


def _others(log: RoundTopic, contributions: Positions, people: int) -> int:
    """Return how many records of the open stage the population has not sent."""
    stage = log.catch_up().current
    return 0 if stage is None else sum(contributions.ends) - sum(stage.begins) - people


def exact_sum(
    stage: StageState, devices: tuple[bytes, ...], ratings: ScopedRatings
) -> NDArray[np.int64]:
    """Return the sum (size,) of the vectors of all devices, without noise."""
    total = np.zeros(stage.stage.size, np.int64)
    for device in devices:
        total += together.contribution(stage.stage, ratings.rated(device))
    return total


def noise_ratio(campaign: Campaign, stage: StageState, exact: NDArray[np.int64]) -> float:
    """Return the standard deviation of what is not the exact sum, over what the plan states."""
    assert stage.result is not None
    stated = campaign.parties * stage.stage.variance
    return math.sqrt(float(np.mean((stage.result - exact).astype(np.float64) ** 2)) / stated)


def published_side(
    connection: Connection, prefix: str, campaign: Campaign, check: Check
) -> PublishedSide:
    """Return the side after all stages, once the worker has published it."""
    deadline = time.monotonic() + _PUBLISHED_SECONDS
    while time.monotonic() < deadline:
        check()
        found = campaign_side(connection, prefix)
        is_of = found is not None and found.plan == campaign.digest
        if found is not None and is_of and found.released == len(campaign.stages):
            return found
        time.sleep(_WAIT_SECONDS)
    raise UserError(
        f"the worker did not publish what campaign {campaign.number} has released within "
        f"{_PUBLISHED_SECONDS:.0f} s"
    )

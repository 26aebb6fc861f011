"""Shards event by event, by the costs of a plan: no worker, no clock, the same for one seed.

Ratings and queries come to each shard in slots, a Poisson number of them about a daily curve. A
shard is one core with one queue. With 1 / S of the ratings after which shards meet (`Meetings`) it
publishes a change, one at a time, which all shards merge from `turn_seconds` later on. A shard that
fails holds its queue; back with its checkpoint it first repeats what came after that.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from research.scale.arithmetic import DAY, US, Plan
from stream_app.models.factorization.joining import Meetings


class Failure(NamedTuple):
    """A shard without a process for some seconds; then one starts and reads the checkpoint."""

    shard: int
    first: float
    seconds: float


class Job(NamedTuple):
    """Work for one shard: ratings and queries of a slot, a change of `publisher`, or a replay."""

    seconds: float
    arrived: float
    ratings: int = 0
    publisher: int | None = None


@dataclass
class Shard:
    """A worker with what waits for it, and what was seen of it.

    lags: (time, seconds from the end of a slot until it was applied). stale: seconds from the
    oldest rating of a change until it was merged here.
    """

    queue: deque[Job] = field(default_factory=deque)
    at_work: Job | None = None
    alive: bool = True
    life: int = 0
    unpublished: int = 0
    oldest: float = math.inf
    under_way: bool = False
    busy: float = 0.0
    read: float = 0.0
    lags: list[tuple[float, float]] = field(default_factory=list)
    stale: list[float] = field(default_factory=list)

    def lag(self, first: float = 0.0, last: float = math.inf) -> float:
        """Return the longest lag of what was applied between two times."""
        return max((lag for now, lag in self.lags if first <= now <= last), default=0.0)


class Simulation:
    """The shards of a plan; the plan's rates are those of the busiest time.

    swing: of the daily curve 1 + swing sin, on days of `day` seconds; begun: ratings before.
    """

    slot = 0.2  # seconds: a cut

    def __init__(
        self,
        plan: Plan,
        *,
        swing: float = 0.0,
        day: float = DAY,
        begun: int = 10**9,
        failures: Sequence[Failure] = (),
        seed: int = 1,
    ) -> None:
        self.plan, self.shards = plan, [Shard() for _ in range(plan.shards)]
        self._swing, self._day, self._rated = swing, day, begun
        self._meetings = Meetings(most=int(plan.people.assumed.meeting))
        self._rng = np.random.default_rng(seed)
        self._events: list[tuple[float, int, str, int, Job | int]] = []
        self._entered = 0
        for number in range(plan.shards):
            self._enter(self.slot, "slot", number)
        start = plan.people.costs.start_seconds + plan.memory / plan.people.costs.restored
        for shard, first, seconds in failures:
            self._enter(first, "down", shard)
            self._enter(first + seconds + start, "up", shard)

    def run(self, seconds: float) -> list[Shard]:
        """Return the shards as they are at that time."""
        while self._events[0][0] <= seconds:
            now, _, kind, number, what = heapq.heappop(self._events)
            if isinstance(what, Job):
                self.shards[number].queue.append(what)
            elif kind == "slot":
                self._slot(now, number)
            elif kind == "done":
                self._done(now, number, what)
            else:
                self._turn(now, number, up=kind == "up")
            self._begin(now, number)
        return self.shards

    def _enter(self, when: float, kind: str, shard: int, what: Job | int = 0) -> None:
        self._entered += 1  # equal times in the order of entry
        heapq.heappush(self._events, (when, self._entered, kind, shard, what))

    def _slot(self, now: float, number: int) -> None:
        plan = self.plan
        curve = 1 + self._swing * math.sin(2 * math.pi * now / self._day)
        part = curve / (1 + self._swing) * self.slot / plan.shards
        means = plan.people.rate * part, plan.queries * part
        ratings, queries = self._rng.poisson(means).tolist()
        seconds = ratings * plan.people.costs.rating_us * US + queries * plan.query_seconds
        self.shards[number].queue.append(Job(seconds, now, ratings))
        self._enter(now + self.slot, "slot", number)

    def _turn(self, now: float, number: int, *, up: bool) -> None:
        shard = self.shards[number]
        shard.alive, shard.life = up, shard.life + 1
        if (job := shard.at_work) and (job.ratings or job.publisher is not None):
            shard.queue.appendleft(job)
        shard.at_work = None
        if up:
            shard.queue.appendleft(Job(self.plan.replay, now))

    def _begin(self, now: float, number: int) -> None:
        shard = self.shards[number]
        if shard.alive and shard.at_work is None and shard.queue:
            shard.at_work = shard.queue.popleft()
            self._enter(now + shard.at_work.seconds, "done", number, shard.life)

    def _done(self, now: float, number: int, life: int) -> None:
        shard = self.shards[number]
        job = shard.at_work
        if life != shard.life or job is None:
            return  # of a process that has died
        shard.at_work, shard.busy = None, shard.busy + job.seconds
        if job.publisher is not None:
            shard.stale.append(now - job.arrived)
            shard.under_way = shard.under_way and job.publisher != number
        elif job.ratings:
            shard.lags.append((now, now - job.arrived))
            shard.unpublished += job.ratings
            shard.oldest = min(shard.oldest, job.arrived)
            self._rated += job.ratings
        enough = shard.unpublished * len(self.shards) >= self._meetings.after(self._rated)
        if enough and not shard.under_way and len(self.shards) > 1:
            self._publish(now, number)

    def _publish(self, now: float, number: int) -> None:
        """Send a change, which costs in proportion to the plan's; `arrived`: its oldest rating."""
        shard, plan = self.shards[number], self.plan
        grown = shard.unpublished * len(self.shards) / (plan.people.rate * plan.interval)
        change = Job(grown * plan.change_seconds, shard.oldest, publisher=number)
        for each, other in enumerate(self.shards):
            other.read += grown * plan.change_bytes
            self._enter(now + plan.people.costs.turn_seconds, "change", each, change)
        shard.queue.appendleft(Job(plan.publish_seconds, now))
        shard.unpublished, shard.oldest, shard.under_way = 0, math.inf, True

"""The ranking thread of a worker: it derives the item side, and learns and measures its lists.

    event loop   copy the counts and lists of some devices at a cut --+        +--> adopt, standing
    thread       ---------------------------------------------------- derive --+

One thread does one derivation at a time. A failure there ends the worker like any other. When the
state is replaced, the item side starts over, and what the thread still works on is dropped.

A derivation begins at most once a second, and only after enough has changed:

    due  <=>  changed by GROWTH of the ratings counted, or by any where the stream rests, or items
              have entered the head
         and  1 s and PAUSE times the last derivation have passed since it ended

So it takes at most a quarter of one core, however large the table is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

import structlog

from stream_app.agents.worker_status import WorkerStatus
from stream_app.kafka.background_thread import BackgroundThread
from stream_app.monitoring.drift import ListDrift
from stream_app.monitoring.metrics import Metrics
from stream_app.serving.recommender import Recommender
from stream_app.serving.served_side import Ingredients, ServedMethod, ServedSide

log = structlog.get_logger()
LEAST_SECONDS = 1.0
PAUSE = 3.0
GROWTH = 0.02
REST_SECONDS = 10.0
LEAST_RATINGS = 100


class Schedule:
    """The times and sizes of derivations; `clock` returns seconds that never go back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ratings, self._changes = 0, 0
        self._ended, self._wait = -float("inf"), 0.0

    def due(self, ratings: int, changes: int = 0) -> bool:
        """Return whether to derive now that `ratings` are counted and the head has changed so many
        times."""
        waited = self._clock() - self._ended
        if ratings < LEAST_RATINGS or waited < self._wait:
            return False
        if self._ratings * (1 + GROWTH) <= ratings or changes != self._changes:
            return True
        return ratings > self._ratings and waited >= REST_SECONDS

    def ended(self, ratings: int, changes: int, seconds: float) -> None:
        """Note that a derivation of `ratings`, after so many changes of the head, took `seconds`
        and ended now."""
        self._ratings, self._changes, self._ended = ratings, changes, self._clock()
        self._wait = max(LEAST_SECONDS, PAUSE * seconds)


class RankingService:
    """Keeps the item side and the standing of a recommender up to date; make it in a loop."""

    def __init__(self, recommender: Recommender, metrics: Metrics, status: WorkerStatus) -> None:
        self._recommender, self._metrics, self._status = recommender, metrics, status
        self._loop = asyncio.get_running_loop()
        self._life = -1
        self.restart()

    def restart(self) -> None:
        """Start over, after the whole state of the replica was replaced."""
        self._life += 1
        self._schedule, self._working = Schedule(), False
        self._drift = ListDrift()

    def at_cut(self) -> None:
        """Begin a derivation in a thread where it is due; the state is that of a cut."""
        pairs = self._recommender.replica.pairs
        # Of the state, not of the ledger, which begins again where a state is adopted.
        if self._working or not self._schedule.due(pairs.reports, pairs.changes):
            return
        ingredients = Ingredients.taken_from(self._recommender.replica)
        if ingredients is None:
            return
        work = partial(self._run, self._life, ingredients, pairs.reports, pairs.changes)
        self._working = True
        BackgroundThread("ranking", work, self._status.fail_from_thread).start()

    # --- the thread -----------------------------------------------------------------------

    def _run(self, life: int, ingredients: Ingredients, ratings: int, changes: int) -> None:
        started = time.perf_counter()
        served = self._recommender.served  # read once: the event loop may replace it
        found = ingredients.derived(served.derived if served else None)
        seconds = time.perf_counter() - started
        more = seconds, ingredients.measured_ratings
        self._loop.call_soon_threadsafe(self._finish, life, found, ratings, changes, *more)

    def _finish(
        self,
        life: int,
        served: ServedSide,
        ratings: int,
        changes: int,
        seconds: float,
        visits: int,
    ) -> None:
        """Adopt what a thread made, unless the state was replaced in the meantime."""
        if life != self._life:
            return
        self._working = False
        before, public = self._recommender.standing, served.channel is None
        standing = ServedMethod.measured(served.derived, public=public)
        if (standing.basis, standing.absent) != (before.basis, before.absent):
            log.info(
                "ranking.lists", basis=standing.basis, ndcg=standing.ndcg,
                ndcg_popular=standing.ndcg_popular, absent=standing.absent,
            )  # fmt: skip
        self._recommender.standing = standing
        self._metrics.devices_scored(served.derived.next.devices)
        error = served.derived.next.ndcg_error if standing.ndcg is not None else None
        self._metrics.ranking(standing.basis, standing.ndcg, standing.ndcg_popular, error)
        found = served.derived.next
        watched = self._drift.observe(
            found.ndcg, found.ndcg_popular, found.ndcg_error or 0.0, ratings, visits
        )
        if watched is not None:
            self._metrics.drift("lists", self._drift.statistic, detected=watched)
        self._schedule.ended(ratings, changes, seconds)
        self._recommender.adopt(served)
        self._metrics.item_side_derived(
            items=len(served.side),
            factors=served.model.factors.shape[1],
            seconds=seconds,
            now=time.time(),
        )

"""The ranking thread of a worker: it derives the item side, and learns and measures its lists.

    event loop   copy the counts and lists of some devices at a cut --+        +--> adopt, standing
    thread       ---------------------------------------------------- derive --+

One thread does one derivation at a time. A failure there ends the worker like any other. When the
state is replaced, the item side starts over, and what the thread still works on is dropped.
"""

from __future__ import annotations

import asyncio
import threading
import time

import structlog

from stream_app.agents.ranking.schedule import Schedule
from stream_app.agents.worker_status import WorkerStatus
from stream_app.monitoring.metrics import Metrics
from stream_app.serving.ingredients import Ingredients
from stream_app.serving.recommender import Recommender
from stream_app.serving.served_side import ServedSide
from stream_app.serving.standing import Standing

log = structlog.get_logger()


class RankingService:
    """Keeps the item side and the standing of a recommender up to date; make it in a loop."""

    def __init__(self, recommender: Recommender, metrics: Metrics, status: WorkerStatus) -> None:
        self._recommender, self._metrics, self._status = recommender, metrics, status
        self._loop = asyncio.get_running_loop()
        self._life = 0
        self._schedule, self._working = Schedule(), False

    def restart(self) -> None:
        """Start over, after the whole state of the replica was replaced."""
        self._life += 1
        self._schedule, self._working = Schedule(), False

    def at_cut(self) -> None:
        """Begin a derivation in a thread where it is due; the state is that of a cut."""
        pairs = self._recommender.replica.pairs
        # Of the state, not of the ledger, which begins again where a state is adopted.
        if self._working or not self._schedule.due(pairs.reports, pairs.changes):
            return
        by, clear = self._recommender.listed_by, not self._recommender.from_published
        ingredients = Ingredients.taken_from(self._recommender.replica, by, co_ratings=clear)
        if ingredients is None:
            return
        work = self._life, ingredients, pairs.reports, pairs.changes
        self._working = True
        # A daemon: the process does not wait for a derivation when it ends.
        threading.Thread(target=self._run, args=work, name="murmurec-ranking", daemon=True).start()

    # --- the thread -----------------------------------------------------------------------

    def _run(self, life: int, ingredients: Ingredients, ratings: int, changes: int) -> None:
        started = time.perf_counter()
        served = self._recommender.served  # read once: the event loop may replace it
        try:
            found = ingredients.derived(served.derived if served else None)
        except BaseException as reason:  # noqa: BLE001 - whatever ends the thread ends the process
            self._status.fail_from_thread(reason)
            return
        seconds = time.perf_counter() - started
        self._loop.call_soon_threadsafe(self._finish, life, found, ratings, changes, seconds)

    def _finish(
        self, life: int, served: ServedSide, ratings: int, changes: int, seconds: float
    ) -> None:
        """Adopt what a thread made, unless the state was replaced in the meantime."""
        if life != self._life:
            return
        self._working = False
        before, public = self._recommender.standing, served.channel is None
        standing = Standing.measured(served.derived, public=public)
        if (standing.basis, standing.absent) != (before.basis, before.absent):
            log.info(
                "ranking.lists", basis=standing.basis, ndcg=standing.ndcg,
                ndcg_popular=standing.ndcg_popular, absent=standing.absent,
            )  # fmt: skip
        self._recommender.standing = standing
        self._metrics.devices_scored(served.derived.next.devices)
        by = self._recommender.listed_by
        ndcg = None if by else standing.ndcg  # of lists by weights alone
        self._metrics.ranking(by or standing.basis, ndcg, standing.ndcg_popular)
        self._schedule.ended(ratings, changes, seconds)
        self._recommender.adopt(served)
        self._metrics.item_side_derived(
            items=len(served.side),
            factors=served.model.factors.shape[1],
            seconds=seconds,
            now=time.time(),
        )

"""The ranking thread of a worker: it derives the item side and scores sampled lists.

    event loop   copy the counts at a cut --+                +--> recommender.adopt, standing
                 collect samples            |                |
    thread       -------------------------- derive, score ---+

One thread does one piece of work at a time, so the measured quality (`OnlineChoice`) is touched by
it alone. A failure there ends the worker like any other. When the state is replaced, the item side
and the measurement start over, and what the thread still works on is dropped.
"""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass

import structlog

from stream_app.agents.ranking.sampling_budget import SamplingBudget
from stream_app.agents.ranking.schedule import Schedule
from stream_app.agents.worker_status import WorkerStatus
from stream_app.monitoring.metrics import Metrics
from stream_app.ranking.online_choice import OnlineChoice, start_of
from stream_app.serving import list_samples, message_samples
from stream_app.serving.ingredients import Ingredients
from stream_app.serving.list_samples import ListSample, Pending
from stream_app.serving.message_samples import MessageSample, PendingMessage
from stream_app.serving.recommender import Recommender
from stream_app.serving.served_side import ServedSide
from stream_app.serving.standing import Standing
from stream_app.serving.together.measured import Measured
from stream_app.state.outcome import BatchOutcome
from stream_app.wire import Batch

log = structlog.get_logger()


@dataclass(frozen=True, eq=False)
class Finished:
    """A piece of work: the new standing after so many lists, and the item side with the seconds
    that it took, if any."""

    standing: Standing
    lists: int
    served: ServedSide | None
    seconds: float
    ratings: int


@dataclass(frozen=True, eq=False)
class Work:
    """Lists to score, and an item side to derive, if its ingredients are given; `measured`: the
    quality of the lists by co-ratings."""

    ingredients: Ingredients | None
    ratings: int
    samples: list[ListSample | MessageSample]
    choice: OnlineChoice
    measured: Measured
    recommender: Recommender

    def done(self) -> Finished:
        """Do the work and return what came of it; only one thread may work on a `choice`."""
        for sample in self.samples:
            sample.score(self.choice)
            if isinstance(sample, ListSample):
                sample.score_by_co_ratings(self.measured)
        started, served, recommender = time.perf_counter(), None, self.recommender
        if self.ingredients is not None:
            # Read once: the event loop may replace the state, and with it the item side, now.
            served = self.ingredients.derived(
                recommender.side,
                recommender.index_name,
                recommender.code_bits,
                recommender.replica.spec.seed,
                recommender.level,
            )
            if served is not None:
                self.choice.start = start_of(served.side)
        seconds = time.perf_counter() - started
        standing = Standing.of_choice(self.choice)
        if recommender.listed_by is not None:
            standing = standing.with_lists_of(recommender.listed_by, self.measured)
        return Finished(standing, len(self.samples), served, seconds, self.ratings)


class RankingService:
    """Keeps the item side and the standing of a recommender up to date; make it in a loop."""

    def __init__(self, recommender: Recommender, metrics: Metrics, status: WorkerStatus) -> None:
        self._recommender, self._metrics, self._status = recommender, metrics, status
        self._loop = asyncio.get_running_loop()
        self._life = 0
        self._start()

    def _start(self) -> None:
        self._choice, self._measured = OnlineChoice(), Measured()
        self._schedule, self._budget = Schedule(), SamplingBudget()
        self._pending: list[Pending] = []
        self._messages: list[PendingMessage] = []
        self._samples: list[ListSample | MessageSample] = []
        self._working = False

    def restart(self) -> None:
        """Start over, after the whole state of the replica was replaced."""
        self._life += 1
        self._start()

    # --- the stream -----------------------------------------------------------------------

    def before(self, batch: Batch) -> None:
        """Choose samples of a batch that is not applied yet."""
        served, most = self._recommender.served, self._budget.available
        if served is not None and most:
            if served.channel is None:
                self._pending = list_samples.before(self._recommender, served, batch, most)
            else:
                self._messages = message_samples.before(self._recommender, served, batch, most)
            self._budget.spend(len(self._pending) + len(self._messages))

    def after(self, outcome: BatchOutcome) -> None:
        """Keep the samples whose records were applied, and of ratings those that are likes."""
        if self._pending:
            self._samples += list_samples.after(self._recommender, self._pending)
            self._pending = []
        if self._messages:
            self._samples += message_samples.after(self._messages, outcome)
            self._messages = []

    def at_cut(self) -> None:
        """Hand work to a thread if none is under way; the state is that of a cut."""
        if self._working:
            return
        replica = self._recommender.replica
        # Of the state, not of the ledger, which begins again where a state is adopted.
        ratings = replica.pairs.reports
        due = self._schedule.due(ratings)
        by, clear = self._recommender.listed_by, not self._recommender.from_published
        ingredients = Ingredients.taken_from(replica, by, co_ratings=clear) if due else None
        if ingredients is None and not self._samples:
            return
        work = Work(
            ingredients, ratings, self._samples, self._choice, self._measured, self._recommender
        )
        self._samples, self._working = [], True
        # A daemon: the process does not wait for a derivation when it ends.
        threading.Thread(
            target=self._run, args=(self._life, work), name="murmurec-ranking", daemon=True
        ).start()

    # --- the thread -----------------------------------------------------------------------

    def _run(self, life: int, work: Work) -> None:
        try:
            finished = work.done()
        except BaseException as reason:  # noqa: BLE001 - whatever ends the thread ends the process
            self._status.fail_from_thread(reason)
        else:
            self._loop.call_soon_threadsafe(self._finish, life, finished)

    def _finish(self, life: int, finished: Finished) -> None:
        """Adopt what a thread made, unless the state was replaced in the meantime."""
        if life != self._life:
            return
        self._working = False
        standing, served = finished.standing, finished.served
        if standing.method != self._recommender.standing.method:
            ndcg = {name: round(value, 4) for name, value in standing.ndcg.items()}
            log.info("ranking.method", method=standing.method, ndcg=ndcg)
        self._recommender.standing = standing
        self._metrics.lists_scored(finished.lists)
        serving = self._recommender.listed_by or standing.method
        self._metrics.ranking(serving, standing.ndcg, standing.hit_rate)
        if served is not None:
            self._schedule.ended(finished.ratings, finished.seconds)
            self._recommender.adopt(served)
            self._metrics.item_side_derived(
                items=len(served.side),
                factors=served.side.factors.shape[1],
                seconds=finished.seconds,
                now=time.time(),
            )

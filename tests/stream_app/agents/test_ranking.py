"""The ranking thread: when it derives, what it adopts, and that its failure ends the worker."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from stream_app.agents.ranking_service import (
    GROWTH,
    LEAST_RATINGS,
    REST_SECONDS,
    RankingService,
    Schedule,
)
from stream_app.agents.worker_status import WorkerStatus
from stream_app.monitoring.metrics import Metrics
from stream_app.serving.recommender import Recommender
from stream_app.serving.served_side import Ingredients
from stream_app.wire.state_records import StateOrigin
from tests.fixtures.clusters import batch_of, device_of, half_of, liked
from tests.fixtures.waiting import PATIENCE_SECONDS
from tests.stream_app.serving.sides import derived, trained


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_first_side_needs_enough_ratings_and_the_next_enough_change() -> None:
    clock = Clock()
    schedule = Schedule(clock)
    assert not schedule.due(LEAST_RATINGS - 1)
    assert schedule.due(LEAST_RATINGS)
    schedule.ended(10_000, 7, 0.1)
    grown = round(10_000 * (1 + GROWTH))
    assert not schedule.due(grown, 8)  # within a second
    clock.now += 1.0
    assert schedule.due(grown, 7)
    assert not schedule.due(grown - 1, 7)
    assert schedule.due(10_000, 8), "an item has entered the head"
    clock.now += REST_SECONDS
    assert schedule.due(10_001, 7)
    assert not schedule.due(10_000, 7)


def test_a_long_derivation_is_followed_by_a_pause_of_three_times_its_length() -> None:
    clock = Clock()
    schedule = Schedule(clock)
    schedule.ended(1000, 0, 2.0)
    clock.now += 5.9
    assert not schedule.due(5000)
    clock.now += 0.2
    assert schedule.due(5000)


Body = Callable[[RankingService, Recommender, Metrics, WorkerStatus], Coroutine[Any, Any, None]]


def with_service(body: Body, recommender: Recommender | None = None) -> None:
    """Run a test's body in an event loop, with the service of a recommender that has pairs."""

    async def main() -> None:
        served, metrics = recommender or trained(), Metrics(CollectorRegistry())
        status = WorkerStatus()
        await body(RankingService(served, metrics, status), served, metrics, status)

    asyncio.run(main())


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not true():
            await asyncio.sleep(0.005)


def published(metrics: Metrics, name: str, **labels: str) -> float:
    value = metrics.registry.get_sample_value(f"murmurec_{name}", labels)
    assert value is not None
    return value


def visited(recommender: Recommender) -> Recommender:
    """Return a recommender whose 80 devices have come back on three later days."""
    replica = recommender.replica
    for day in (2, 3, 4):
        for number in range(80):
            had = replica.history(device_of(number))[0].tolist()
            new = [item for item in half_of(number) if item not in had][number % 3 :][:2]
            replica.apply(batch_of(replace(liked(number, new, day), epoch=day)))
        replica.end_round(day, replica.end_offsets)
    return recommender


def test_the_item_side_is_derived_beside_the_loop_and_its_lists_are_measured() -> None:
    async def body(
        ranking: RankingService, recommender: Recommender, metrics: Metrics, status: WorkerStatus
    ) -> None:
        ranking.at_cut()
        assert recommender.side is None  # the thread has only been started
        await until(lambda: recommender.side)
        assert recommender.side is not None
        assert recommender.side.version == recommender.replica.cut
        assert published(metrics, "item_side_items") == len(recommender.side) == 24
        assert published(metrics, "item_side_derivation_seconds_count") == 1
        standing = recommender.standing
        assert standing.absent == ""
        assert standing.basis in {"links", "learned"}
        assert published(metrics, "list_method", method=standing.basis) == 1
        assert published(metrics, "list_method", method="popular") == 0
        assert published(metrics, "list_ndcg_ratio", list="served") == standing.ndcg
        assert published(metrics, "list_ndcg_ratio", list="popular") == standing.ndcg_popular
        learned = recommender.served.derived.next
        assert published(metrics, "list_ndcg_error_ratio") == learned.ndcg_error > 0
        assert published(metrics, "list_devices") == 80
        assert published(metrics, "drift_statistic", detector="lists") == 0
        assert standing.ndcg is not None
        assert standing.ndcg_popular is not None
        assert standing.ndcg > standing.ndcg_popular
        assert status.failure is None

    with_service(body, visited(trained()))


def test_without_a_second_visit_there_is_no_figure_and_a_reason() -> None:
    async def body(
        ranking: RankingService, recommender: Recommender, metrics: Metrics, status: WorkerStatus
    ) -> None:
        ranking.at_cut()
        await until(lambda: recommender.side)
        standing = recommender.standing
        assert (standing.ndcg, standing.ndcg_popular, standing.basis) == (None, None, "links")
        assert standing.absent == "0 devices with a second visit: 50 are needed"
        assert math.isnan(published(metrics, "list_ndcg_ratio", list="served"))

    with_service(body)


def test_a_replaced_state_drops_what_the_thread_still_works_on() -> None:
    async def body(
        ranking: RankingService, recommender: Recommender, metrics: Metrics, status: WorkerStatus
    ) -> None:
        ranking.at_cut()
        # It may have ended already, but not handed anything to the loop.
        working = [t for t in threading.enumerate() if t.name == "murmurec-ranking"]
        ranking.restart()
        for thread in working:
            await asyncio.to_thread(thread.join)
        for _ in range(3):  # what the thread handed to the loop runs first
            await asyncio.sleep(0)
        assert recommender.side is None
        assert published(metrics, "item_side_derivation_seconds_count") == 0
        ranking.at_cut()
        await until(lambda: recommender.side)

    with_service(body)


def test_an_adopted_state_has_an_item_side_before_any_new_rating() -> None:
    """Its ledger begins again; what goes together does not."""

    async def body(
        ranking: RankingService, recommender: Recommender, metrics: Metrics, status: WorkerStatus
    ) -> None:
        replica = recommender.replica
        model = {name: array.copy() for name, array in replica.model_arrays().items()}
        replica.adopt(model, replica.ledger.arrays(), StateOrigin(7, replica.end_offsets))
        recommender.restart()
        assert replica.ledger.counts()["ratings_learned"] == 0
        ranking.at_cut()
        await until(lambda: recommender.side)

    with_service(body)


class Replaced(Recommender):
    """A recommender whose item side is gone after the first look of another thread at it."""

    looks = 0

    def __getattribute__(self, name: str) -> Any:
        if name != "served" or threading.current_thread() is threading.main_thread():
            return super().__getattribute__(name)
        self.looks += 1
        return super().__getattribute__(name) if self.looks == 1 else None


def test_the_thread_looks_once_at_an_item_side_that_may_be_replaced_meanwhile() -> None:
    recommender = trained()
    before = derived(recommender)
    recommender.__class__ = Replaced

    async def body(
        ranking: RankingService, recommender: Recommender, metrics: Metrics, status: WorkerStatus
    ) -> None:
        ranking.at_cut()
        await until(lambda: status.failure or recommender.served is not before)
        assert status.failure is None
        assert recommender.side is not None
        assert recommender.side.keys.tolist() == before.side.keys.tolist()

    with_service(body, recommender)


def test_a_failure_of_the_thread_ends_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(Ingredients, "derived", broken)

    async def body(
        ranking: RankingService, recommender: Recommender, metrics: Metrics, status: WorkerStatus
    ) -> None:
        ranking.at_cut()
        await asyncio.wait_for(status.ending.wait(), PATIENCE_SECONDS)
        assert str(status.failure) == "a defect"

    with_service(body)

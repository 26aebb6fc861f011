"""The ranking thread: when it derives, what it adopts, and that its failure ends the worker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from stream_app.agents.ranking import service as module
from stream_app.agents.ranking.sampling_budget import A_SECOND, AT_ONCE, SAVED, SamplingBudget
from stream_app.agents.ranking.schedule import GROWTH, LEAST_RATINGS, REST_SECONDS, Schedule
from stream_app.agents.ranking.service import RankingService, Work
from stream_app.agents.worker_status import WorkerStatus
from stream_app.monitoring.metrics import Metrics
from stream_app.ranking.online_choice import OnlineChoice
from stream_app.serving.ingredients import Ingredients
from stream_app.serving.recommender import Recommender
from stream_app.serving.together.measured import Measured
from stream_app.wire.state_records import StateOrigin
from tests.fixtures.clusters import batch_of, device_of, half_of, liked
from tests.fixtures.waiting import PATIENCE_SECONDS
from tests.stream_app.serving.sides import CO_RATED, derived, trained


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
    schedule.ended(10_000, 0.1)
    grown = round(10_000 * (1 + GROWTH))
    assert not schedule.due(grown)  # within a second
    clock.now += 1.0
    assert schedule.due(grown)
    assert not schedule.due(grown - 1)
    clock.now += REST_SECONDS
    assert schedule.due(10_001)
    assert not schedule.due(10_000)


def test_a_long_derivation_is_followed_by_a_pause_of_three_times_its_length() -> None:
    clock = Clock()
    schedule = Schedule(clock)
    schedule.ended(1000, 2.0)
    clock.now += 5.9
    assert not schedule.due(5000)
    clock.now += 0.2
    assert schedule.due(5000)


def test_lists_are_bounded_a_second_and_a_batch_and_what_was_not_spent_is_saved() -> None:
    clock = Clock()
    budget = SamplingBudget(clock)
    assert spent(budget) == [AT_ONCE] * int(SAVED / AT_ONCE)
    clock.now += 0.5
    assert spent(budget) == [A_SECOND / 2]
    clock.now += 2.0
    assert sum(spent(budget)) == 2 * A_SECOND
    clock.now += 1000.0
    assert sum(spent(budget)) == SAVED


def spent(budget: SamplingBudget) -> list[int]:
    """Return how many lists one batch after the other may have, until none is left."""
    found = []
    while most := budget.available:
        budget.spend(most)
        found.append(most)
    return found


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


def test_the_item_side_is_derived_beside_the_loop_and_then_measured_and_chosen() -> None:
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
        for seq in (2, 3, 4, 5):
            for number in range(80):
                rated = recommender.replica.history(device_of(number))[0].tolist()
                new = next(item for item in half_of(number) if item not in rated)
                batch = batch_of(liked(number, [new], seq))
                ranking.before(batch)
                ranking.after(recommender.replica.apply(batch))
        ranking.at_cut()
        await until(lambda: published(metrics, "lists_scored_total") > 0)
        assert recommender.standing.method in ("ease", "low_rank", "blend")
        serving = recommender.standing.method
        assert published(metrics, "list_method", method=serving) == 1
        assert published(metrics, "list_method", method="popular") == 0
        ndcg = recommender.standing.ndcg
        assert published(metrics, "list_ndcg_ratio", method="popular") == ndcg["popular"]
        assert ndcg[serving] > ndcg["popular"]
        assert status.failure is None

    with_service(body)


@pytest.mark.parametrize("method", ["slope-one", "cosine"])
def test_lists_by_co_ratings_are_measured_beside_the_others(method: str) -> None:
    async def body(
        ranking: RankingService, recommender: Recommender, metrics: Metrics, status: WorkerStatus
    ) -> None:
        ranking.at_cut()
        await until(lambda: recommender.side)
        for seq in (2, 3, 4, 5):
            for number in range(80):
                rated = recommender.replica.history(device_of(number))[0].tolist()
                new = next(item for item in half_of(number) if item not in rated)
                batch = batch_of(liked(number, [new], seq))
                ranking.before(batch)
                ranking.after(recommender.replica.apply(batch))
        ranking.at_cut()
        await until(lambda: published(metrics, "lists_scored_total") > 0)
        ndcg = recommender.standing.ndcg
        assert published(metrics, "list_method", method=method) == 1
        assert published(metrics, "list_method", method="blend") == 0
        assert published(metrics, "list_ndcg_ratio", method=method) == ndcg[method]
        assert 0 < recommender.standing.hit_rate[method] <= 1
        if method == "cosine":
            assert ndcg[method] > ndcg["popular"]
        answer = recommender.answer(device_of(0), 5)
        assert (answer.method, answer.ndcg) == (method, round(ndcg[method], 4))
        assert status.failure is None

    with_service(body, trained(spec=CO_RATED, listed_by=method))


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
    """A recommender whose state is replaced after the first look at its item side."""

    looks = 0

    def __getattribute__(self, name: str) -> Any:
        if name != "served":
            return super().__getattribute__(name)
        self.looks += 1
        return super().__getattribute__(name) if self.looks == 1 else None


def test_the_thread_looks_once_at_an_item_side_that_may_be_replaced_meanwhile() -> None:
    recommender = trained()
    served = derived(recommender)
    recommender.__class__ = Replaced
    ingredients = Ingredients.taken_from(recommender.replica)
    finished = Work(ingredients, 1, [], OnlineChoice(), Measured(), recommender).done()
    assert finished.served is not None
    assert finished.served.side.keys.tolist() == served.side.keys.tolist()


def test_the_thread_builds_an_index_of_the_recall_that_is_asked_for() -> None:
    recommender = trained()
    recommender.level.target = 0.9
    ingredients = Ingredients.taken_from(recommender.replica)
    finished = Work(ingredients, 1, [], OnlineChoice(), Measured(), recommender).done()
    assert finished.served is not None
    assert finished.served.index is not None
    assert finished.served.index.level.target == 0.9


def test_a_failure_of_the_thread_ends_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(module.Work, "done", broken)

    async def body(
        ranking: RankingService, recommender: Recommender, metrics: Metrics, status: WorkerStatus
    ) -> None:
        ranking.at_cut()
        await asyncio.wait_for(status.ending.wait(), PATIENCE_SECONDS)
        assert str(status.failure) == "a defect"

    with_service(body)

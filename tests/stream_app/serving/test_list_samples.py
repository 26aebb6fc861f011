"""Lists are scored against what is liked next: with the state of before, and only if it counts."""

from __future__ import annotations

import numpy as np
import pytest

from stream_app.ranking.online_choice import METHODS, OnlineChoice
from stream_app.serving import list_samples
from stream_app.serving.list_samples import ListSample
from stream_app.serving.recommender import Recommender
from stream_app.serving.standing import Standing
from stream_app.wire import Event
from tests.fixtures.clusters import batch_of, device_of, half_of, liked
from tests.stream_app.serving.sides import derived, trained


@pytest.fixture(autouse=True)
def _every_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sample every pair instead of a share of them."""
    monkeypatch.setattr(list_samples, "SHARE", 1 - 2.0**-53)


def sampled(recommender: Recommender, event: Event, most: int = 100) -> list[ListSample]:
    """Return the samples of an event, which is applied."""
    served = recommender.served
    assert served is not None
    batch = batch_of(event)
    pending = list_samples.before(recommender, served, batch, most)
    recommender.replica.apply(batch)
    return list_samples.after(recommender, pending)


def unrated(recommender: Recommender, number: int) -> list[int]:
    rated = recommender.replica.history(device_of(number))[0].tolist()
    return [item for item in half_of(number) if item not in rated]


def test_a_liked_item_is_scored_with_the_history_of_before() -> None:
    recommender = trained()
    served = derived(recommender)
    wanted = unrated(recommender, 0)[:2]
    samples = sampled(recommender, liked(0, wanted, 2))
    assert served.side.keys[[sample.target for sample in samples]].tolist() == wanted
    for sample in samples:
        assert len(sample.history.slots) == 5
        assert sample.allowed[sample.target]
        assert not sample.allowed[sample.history.slots].any()


def test_an_item_that_is_not_liked_or_not_applied_is_not_scored() -> None:
    recommender = trained()
    derived(recommender)
    first, second, third = unrated(recommender, 0)[:3]
    assert sampled(recommender, liked(0, [first], 2, level=0)) == []
    assert sampled(recommender, liked(0, [second], 2)) == []  # a duplicate
    assert len(sampled(recommender, liked(0, [third], 3))) == 1
    assert sampled(recommender, liked(0, [third], 4)) == []  # rated already
    assert sampled(recommender, liked(0, [7777], 5)) == []  # not among the items of the side
    assert sampled(recommender, liked(500, [1], 1)) == []  # without a history


def test_at_most_so_many_lists_are_scored_and_they_are_spread_over_the_batch() -> None:
    recommender = trained()
    derived(recommender)
    wanted = unrated(recommender, 0)
    assert len(sampled(recommender, liked(0, wanted, 2), most=2)) == 2


def test_only_a_share_is_sampled_and_always_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_samples, "SHARE", 0.25)
    items = list(range(4000))
    batch = batch_of(liked(0, items, 1))
    first = list_samples._chosen(batch, 10**6)
    assert first == list_samples._chosen(batch, 10**6)
    # Binomial(4000, 1/4): beyond 6 standard deviations with probability 2e-9
    assert abs(len(first) - 1000) < 6 * np.sqrt(750)
    spread = [rating for _, rating in list_samples._chosen(batch, 10)]
    assert len(spread) == 10
    assert max(np.diff(spread)) < 800


def test_a_method_that_knows_tastes_is_measured_as_better_than_popular_and_serves() -> None:
    recommender, choice = trained(), OnlineChoice(k=3)
    derived(recommender)
    for number in range(70):
        for sample in sampled(recommender, liked(number, unrated(recommender, number)[:1], 2)):
            sample.score(choice)
    standing = Standing.of_choice(choice)
    assert set(standing.ndcg) == set(standing.hit_rate) == set(METHODS)
    assert standing.ndcg["ease"] > 1.3 * standing.ndcg["popular"]
    assert standing.method in ("ease", "low_rank", "blend")


def test_a_standing_without_events_has_no_measurement() -> None:
    assert Standing.of_choice(OnlineChoice()) == Standing()

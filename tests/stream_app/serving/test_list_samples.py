"""Lists are scored against what is liked next: with what the device had by then, if it counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stream_app.ranking.online_choice import METHODS, OnlineChoice
from stream_app.serving import list_samples
from stream_app.serving.list_samples import ListSample
from stream_app.serving.recommender import Recommender
from stream_app.serving.standing import Standing
from stream_app.serving.together.measured import Measured
from stream_app.wire import Event, decode_many, user_key
from tests.fixtures.clusters import DESIGN, batch_of, device_of, half_of, liked
from tests.fixtures.streams import publish, run_of
from tests.stream_app.serving.sides import CO_RATED, derived, trained


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


def played(recommender: Recommender, events: list[Event], each: int) -> list[ListSample]:
    """Return the samples of events, of one partition, applied `each` at a time."""
    served, found = recommender.served, []
    assert served is not None
    records = [publish(event, partitions=1) for event in events]
    for start in range(0, len(records), each):
        run = run_of(records, start, min(start + each, len(records)), 0)
        batch = decode_many(run, DESIGN.intake)
        pending = list_samples.before(recommender, served, batch, len(records))
        recommender.replica.apply(batch)
        found += list_samples.after(recommender, pending)
    return found


def unrated(recommender: Recommender, number: int) -> list[int]:
    rated = recommender.replica.history(device_of(number))[0].tolist()
    return [item for item in half_of(number) if item not in rated]


def test_a_liked_item_is_scored_with_all_that_the_device_had_before_it() -> None:
    recommender = trained()
    served = derived(recommender)
    keys = served.side.keys
    had = recommender.replica.history(device_of(0))[0].tolist()
    wanted = unrated(recommender, 0)[:3]
    samples = sampled(recommender, liked(0, wanted, 2))
    assert keys[[sample.target for sample in samples]].tolist() == wanted
    for place, sample in enumerate(samples):
        assert sample.served is served
        assert keys[sample.history.slots].tolist() == had + wanted[:place]
        assert sample.allowed[sample.target]
        assert not sample.allowed[sample.history.slots].any()
        assert sample.allowed.sum() == len(keys) - len(had) - place


def test_lists_by_co_ratings_know_the_stars_of_what_came_before_the_item() -> None:
    recommender = trained(spec=CO_RATED, listed_by="slope-one")
    table = derived(recommender).co_rated
    assert table is not None
    had = recommender.replica.history(device_of(0))[0].tolist()
    wanted = unrated(recommender, 0)[:3]
    for place, sample in enumerate(sampled(recommender, liked(0, wanted, 2))):
        assert sample.rated is not None
        assert table.keys[sample.rated.slots].tolist() == had + wanted[:place]
        assert sample.rated.stars.tolist() == [5.0] * (len(had) + place)
        measured = Measured()
        sample.score_by_co_ratings(measured)
        assert measured.events == 1
        scores = np.where(sample.allowed, table.scores(sample.rated), -np.inf)
        ahead = scores > scores[sample.target]
        if ahead.sum() >= 10:
            assert measured.hit_rate == 0
    assert all(sample.rated is None for sample in sampled(trained_plain(), liked(0, wanted, 2)))


def trained_plain() -> Recommender:
    """Return a recommender whose lists are by the best method."""
    recommender = trained(spec=CO_RATED)
    derived(recommender)
    return recommender


def test_the_vector_of_the_user_is_that_of_before_the_batch() -> None:
    recommender = trained()
    derived(recommender)
    users = np.array([user_key(device_of(0))], np.uint64)
    before, _ = recommender.replica.learner.users(users)
    (sample,) = sampled(recommender, liked(0, unrated(recommender, 0)[:1], 2))
    after, _ = recommender.replica.learner.users(users)
    assert sample.vector.tolist() == before[0].tolist() != after[0].tolist()


def test_a_pair_that_comes_twice_in_a_batch_is_scored_once() -> None:
    recommender = trained()
    derived(recommender)
    item = unrated(recommender, 0)[0]
    events = [liked(0, [item], 2), liked(0, [item], 3)]
    assert len(played(recommender, events, each=2)) == 1


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


def test_a_duplicate_costs_no_look_at_all_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    recommender = trained()
    derived(recommender)
    again = liked(0, unrated(recommender, 0)[:1], 2)
    looked: list[int] = []
    look = recommender.allowed_slots
    monkeypatch.setattr(recommender, "allowed_slots", lambda *a: (looked.append(1), look(*a))[1])
    assert len(sampled(recommender, again)) == len(looked) == 1
    assert sampled(recommender, again) == []
    assert len(looked) == 1


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


def sessions(first: int, devices: int) -> list[Event]:
    """Return the ratings of new devices, one a record, each device's in a row: it likes most of the
    items of its half, and some device likes each other item."""
    rng, made = np.random.default_rng(first), []
    for number in range(first, first + devices):
        own = rng.choice(list(half_of(number)), 6, replace=False).tolist()
        other = int(rng.choice(list(half_of(number + 1))))
        made += [liked(number, [item], seq + 1) for seq, item in enumerate([*own, other])]
    return made


def test_the_standing_is_the_same_in_large_batches_as_rating_by_rating() -> None:
    """A batch of 2,000 holds whole sessions of devices that are new. Held-out ratings are in no
    list, but are not shown again either."""
    standings = []
    for each in (2000, 1):
        recommender, choice = trained(spec=replace(DESIGN, held_out=0.2)), OnlineChoice(k=3)
        derived(recommender)
        for sample in played(recommender, sessions(80, 250), each):
            sample.score(choice)
        standings.append(Standing.of_choice(choice))
    bulk, single = standings
    assert bulk.method == single.method != "popular"
    assert bulk.ndcg[bulk.method] > 1.3 * bulk.ndcg["popular"]
    # History, item side and target are the same; the learner's vector is older in a batch.
    for method in ("popular", "ease", "low_rank"):
        assert bulk.ndcg[method] == single.ndcg[method], method
        assert bulk.hit_rate[method] == single.hit_rate[method], method
    assert bulk.ndcg["blend"] == pytest.approx(single.ndcg["blend"], abs=0.05)


def test_a_few_lists_are_no_measurement() -> None:
    recommender, choice = trained(), OnlineChoice(k=3)
    derived(recommender)
    for number in range(20):
        for sample in sampled(recommender, liked(number, unrated(recommender, number)[:1], 2)):
            sample.score(choice)
    assert choice.events > 10
    assert Standing.of_choice(choice).ndcg == Standing.of_choice(choice).hit_rate == {}


def test_a_standing_without_events_has_no_measurement() -> None:
    assert Standing.of_choice(OnlineChoice()) == Standing()

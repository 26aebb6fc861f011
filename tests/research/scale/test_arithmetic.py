"""The arithmetic of a large deployment: its laws, its limits, and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest

from research.scale.arithmetic import DAY, Population, distinct, fewest, next_step, plan
from research.scale.costs import changed

COSTS, ASSUMED = changed({})


def population(devices: float, items: float, **values: float) -> Population:
    return Population(devices, items, *changed(values))


@pytest.mark.parametrize("items", [10, 1_000, 50_000])
@pytest.mark.parametrize("draws", [1, 100, 10_000, 10**7])
def test_distinct_items_are_those_of_the_sum_over_all_of_them(draws, items):
    chance = 1 / np.arange(1, items + 1)
    expected = -np.expm1(-draws * chance / chance.sum()).sum()
    assert distinct(draws, items) == pytest.approx(expected, rel=0.12)


def test_few_ratings_have_items_of_their_own_and_many_have_all():
    assert distinct(0.01, 1e6) == pytest.approx(0.01, rel=0.01)
    assert distinct(1e12, 1e6) == pytest.approx(1e6, rel=1e-3)


@pytest.mark.parametrize(("devices", "items"), [(1e6, 1e5), (1e7, 1e6), (1e8, 1e7)])
def test_the_shards_are_the_fewest_within_every_limit(devices, items):
    found = fewest(population(devices, items))
    assert found.worst <= 1
    assert found.busy <= ASSUMED.core
    assert found.memory <= ASSUMED.worker_bytes
    assert found.shards == 1 or plan(found.people, found.shards // 2).worst > 1


def test_one_shard_exchanges_nothing():
    found = plan(population(1e6, 1e5), 1)
    assert found.read == found.sent == 0
    seconds = found.people.rate * COSTS.rating_us + found.queries * (COSTS.query_us + 11.5)
    assert found.busy == pytest.approx(seconds * 1e-6)


def test_more_shards_divide_devices_and_not_the_exchange():
    people = population(1e8, 1e6)
    few, many = plan(people, 32), plan(people, 256)
    side = people.items * COSTS.item_bytes + COSTS.process_bytes
    assert (few.memory - side) / (many.memory - side) == pytest.approx(8)
    assert many.read >= few.read
    assert many.limits["exchange"] * (ASSUMED.core - many.busy) > 0
    assert (few.sent, many.sent) == pytest.approx((32 * few.read, 256 * many.read))


def test_an_exchange_is_no_shorter_than_its_turn():
    slow, fast = plan(population(1e6, 1e5), 4), plan(population(1e11, 1e5), 4)
    assert slow.interval == pytest.approx(ASSUMED.meeting / (1e6 * 5 * 2 / DAY))
    assert fast.interval == COSTS.turn_seconds + fast.publish_seconds


@pytest.mark.parametrize("devices", [1e5, 1e7, 1e9])
def test_a_hundred_million_items_break_every_worker(devices):
    found = fewest(population(devices, 1e8))
    assert found.limits["items"] > 1
    step = next_step(found)
    assert step.item_shards > 1
    assert step.item_shards * ASSUMED.worker_bytes > 1e8 * COSTS.item_bytes


def test_four_billion_devices_break_the_exchange_which_a_tree_relieves():
    found = fewest(population(4e9, 1e6))
    assert found.limits["exchange"] > 1
    step = next_step(found)
    assert step.exchange < 0.5 * ASSUMED.core
    assert step.read < found.read


def test_what_has_no_room_in_a_change_breaks_a_limit_and_is_not_sent():
    tight, wide = (plan(population(1e8, 1e7, room_bytes=size), 8) for size in (1e6, 1e9))
    assert tight.change_bytes == 1e6 < wide.change_bytes
    assert tight.limits["room"] == pytest.approx(wide.change_bytes / 1e6)
    assert tight.worst > 1 > wide.limits["room"]


def test_a_worker_that_is_always_busy_is_never_level():
    found = plan(population(1e9, 1e6), 2)
    assert found.busy > 1
    assert found.level == math.inf
    assert found.worst == math.inf


def test_a_plan_with_a_cheaper_query_needs_fewer_workers():
    assert fewest(population(1e8, 1e6, query_us=500.0, meeting=1e5)).shards < 32


@pytest.mark.parametrize("values", [{"shards": 3.0}, {"ratings": 0.0}, {"row_us": math.nan}])
def test_a_number_that_is_none_of_the_plan_is_refused(values):
    (name,) = values
    with pytest.raises(ValueError, match=f"{name}=.*give a value above 0 of one of"):
        changed(values)

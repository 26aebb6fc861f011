"""Simulated shards against the arithmetic: load, traffic, failures, and too much of it."""

from __future__ import annotations

import numpy as np
import pytest

from research.scale.arithmetic import Plan, Population, plan
from research.scale.costs import changed
from research.scale.simulation import Failure, Shard, Simulation

SECONDS = 120.0


def planned(devices: float, shards: int, **values: float) -> Plan:
    """Return a plan with 100,000 items, a replay of 5 s, and exchanges after 50,000 ratings."""
    return plan(
        Population(devices, 1e5, *changed({"replay_seconds": 5.0, "meeting": 50_000.0, **values})),
        shards,
    )


def busy(shards: list[Shard], seconds: float) -> float:
    return float(np.mean([shard.busy for shard in shards])) / seconds


@pytest.mark.parametrize(("devices", "shards"), [(1e6, 1), (1e7, 4), (5e7, 16), (3e8, 64)])
def test_load_and_traffic_are_those_of_the_arithmetic(devices, shards):
    expected = planned(devices, shards)
    seconds = 16 * expected.interval if shards > 1 else SECONDS
    found = Simulation(expected).run(seconds)
    assert busy(found, seconds) == pytest.approx(expected.busy, rel=0.1)
    assert found[0].read / seconds == pytest.approx(expected.read, rel=0.1)


def test_over_a_day_the_load_is_that_of_its_mean():
    expected = planned(5e7, 16)
    found = Simulation(expected, swing=0.5, day=SECONDS).run(SECONDS)
    assert busy(found, SECONDS) == pytest.approx(expected.busy / 1.5, rel=0.1)


def test_one_seed_is_one_run():
    first, again, other = (
        [shard.lags for shard in Simulation(planned(1e7, 4), seed=seed).run(20.0)]
        for seed in (1, 1, 2)
    )
    assert first == again != other


def test_a_dead_shard_delays_no_other_and_is_late_as_predicted():
    expected = planned(2e7, 8)
    failures = [Failure(3, 30.0, expected.people.assumed.session_seconds)]
    healthy = Simulation(expected).run(2 * SECONDS)
    found = Simulation(expected, failures=failures).run(2 * SECONDS)
    assert found[3].lag() == pytest.approx(expected.lag, rel=0.05)
    late = [now for now, lag in found[3].lags if lag > 1.0]
    assert max(late) - 30.0 == pytest.approx(expected.level, rel=0.15)
    for number in {*range(8)} - {3}:
        assert found[number].lag() < healthy[number].lag() + 0.5
    counted = [sum(lag < 1.0 for _, lag in shard.lags) for shard in found]
    assert counted[3] < min(counted[:3] + counted[4:])


def test_what_a_dead_shard_learned_is_merged_late_and_not_lost():
    expected = planned(2e7, 8)
    healthy = Simulation(expected).run(2 * SECONDS)
    found = Simulation(expected, failures=[Failure(3, 30.0, 6.0)]).run(2 * SECONDS)
    assert max(found[0].stale) > expected.lag > max(healthy[0].stale)
    assert found[0].read == pytest.approx(healthy[0].read, rel=0.05)
    assert len(found[3].lags) == pytest.approx(len(healthy[3].lags), rel=0.01)
    assert len(found[3].stale) == pytest.approx(len(found[0].stale), abs=2)


def test_a_shard_that_dies_as_it_replays_begins_again():
    expected = planned(2e7, 8, replay_seconds=30.0)
    up = expected.lag - expected.replay
    failures = [Failure(3, 30.0, 6.0), Failure(3, 30.0 + up + 1.0, 6.0)]
    found = Simulation(expected, failures=failures).run(2 * SECONDS)
    assert found[3].lag() == pytest.approx(up + 1.0 + expected.lag, rel=0.03)


def test_shards_that_get_too_much_fall_behind_for_ever():
    expected = planned(1e8, 8)
    assert expected.busy > 1
    found = Simulation(expected).run(SECONDS)
    half, end = found[0].lag(last=SECONDS / 2), found[0].lag()
    assert end == pytest.approx(2 * half, rel=0.1)
    assert end == pytest.approx(SECONDS * (1 - 1 / expected.busy), rel=0.15)


def test_shards_meet_more_often_at_first():
    expected = planned(1e7, 4)
    late, early = (Simulation(expected, begun=n).run(SECONDS)[0].stale for n in (10**9, 0))
    assert len(early) > 2 * len(late)
    assert np.median(early) < np.median(late)


def test_a_shard_has_one_change_under_way():
    slow = planned(1e8, 64, turn_seconds=10.0)
    found = Simulation(slow).run(SECONDS)
    assert len(found[0].stale) <= 64 * SECONDS / slow.interval
    assert min(found[0].stale) >= 10.0

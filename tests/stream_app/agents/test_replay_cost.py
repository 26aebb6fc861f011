"""When a checkpoint is due: by what a restart would repeat, by retention, by the clock."""

from __future__ import annotations

import pytest

from stream_app.agents.checkpointing.checkpoint_service import ReplayCost


def test_a_checkpoint_is_due_once_a_restart_would_repeat_too_much() -> None:
    cost = ReplayCost(2.0)
    cost.start(0.0)
    assert not cost.due(1e9), "nothing was applied"
    cost.applied(1.5, 10.0)
    assert not cost.due(1e6)
    cost.applied(0.5, 20.0)
    assert cost.due(20.0)
    assert not cost.due(20.0, factor=2.0)


def test_what_is_applied_while_a_checkpoint_is_written_counts_for_the_next() -> None:
    cost = ReplayCost(2.0)
    cost.start(0.0)
    cost.applied(3.0, 1.0)
    cost.frozen(1.0)
    cost.applied(1.5, 1.1)
    cost.durable(1.1)
    assert cost.seconds == pytest.approx(1.5)
    assert not cost.due(9.0)
    cost.applied(0.6, 9.0)
    assert cost.due(9.0)


def test_a_checkpoint_that_did_not_become_durable_covers_nothing() -> None:
    cost = ReplayCost(2.0)
    cost.start(0.0)
    cost.applied(3.0, 1.0)
    cost.frozen(1.0)
    assert cost.due(1.5)
    cost.frozen(2.0)
    cost.durable(2.0)
    assert not cost.due(2.0)


def test_checkpoints_that_take_long_come_seldom() -> None:
    cost = ReplayCost(2.0)
    cost.start(0.0)
    cost.applied(2.0, 1.0)
    cost.frozen(1.0)
    cost.durable(6.0)
    cost.applied(19.0, 25.0)
    assert not cost.due(25.0), "it took 5 s: not before 20 s have passed"
    assert cost.due(26.0)


def test_a_slow_stream_over_a_large_state_is_checkpointed_by_its_cost() -> None:
    cost = ReplayCost(2.0)
    cost.start(0.0)
    cost.applied(2.0, 1.0)
    cost.frozen(1.0)
    cost.durable(11.0)
    cost.applied(1.9, 100.0)
    assert not cost.due(100.0)
    cost.applied(0.1, 105.0)
    assert cost.due(105.0), "a restart would repeat 2 s, however long writing takes"


def test_after_a_pause_there_is_time_for_a_marked_cut_before_any_cut_will_do() -> None:
    """The other replicas take their digests at marked cuts only."""
    cost = ReplayCost(2.0)
    cost.start(0.0)
    cost.applied(2.0, 1.0)
    cost.frozen(1.0)
    cost.durable(3.0)
    cost.applied(5.0, 10.0)
    assert cost.due(11.0)
    assert not cost.due(18.9, factor=2.0), "it took 2 s: due after 8, overdue after 16"
    assert cost.due(19.0, factor=2.0)


def test_a_broker_that_was_away_for_hours_does_not_put_off_the_next_checkpoint() -> None:
    cost = ReplayCost(2.0)
    cost.start(0.0)
    cost.applied(2.0, 1.0)
    cost.frozen(1.0)
    cost.durable(7200.0)
    cost.applied(239.0, 7439.0)
    assert not cost.due(7439.0)
    assert cost.due(7440.0)


def test_ratings_are_covered_long_before_kafka_deletes_them() -> None:
    cost = ReplayCost(2.0, retention=1000.0)
    cost.start(0.0)
    cost.applied(0.001, 500.0)
    assert not cost.due(599.0)
    assert cost.due(600.0)
    cost.frozen(600.0)
    cost.durable(601.0)
    assert not cost.due(1e6)


def test_the_clock_decides_where_it_is_asked_to() -> None:
    cost = ReplayCost(2.0, longest=5.0)
    cost.start(100.0)
    assert not cost.due(1e6)
    cost.applied(0.001, 104.0)
    assert not cost.due(104.9)
    assert cost.due(105.0)
    assert not cost.due(105.0, factor=2.0)


def test_a_replaced_state_begins_without_a_cost() -> None:
    cost = ReplayCost(2.0)
    cost.applied(9.0, 1.0)
    cost.start(2.0)
    assert not cost.due(3.0)

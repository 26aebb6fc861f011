"""The public device: what it spends, what it refuses, and that its events reach a real broker."""

from __future__ import annotations

import socket
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import KafkaError

from murmurec import Device, LocalRecommender
from producers.person.enrolment import NO_LIMIT
from producers.ranking.published import PublicTable
from stream_app.errors import UserError
from stream_app.kafka import clients
from tests.fixtures.item_sides import item_side
from tests.producers.journals import ask
from tests.producers.test_publishing import Queue


def test_a_rating_is_paid_for_and_waits(tmp_path: Path) -> None:
    with Device("ann", tmp_path / "j", epsilon="1/2").enrol(1, delta=0) as device:
        message = device.rate("alien", 5)
        assert (device.spent, device.remaining, device.waiting) == (Fraction(1, 2), 1, 1)
    assert message.key.decode() == device_name(tmp_path)
    assert b"ann" not in message.value


def device_name(folder: Path) -> str:
    with Device("ann", folder / "j") as device:
        return device.pseudonym


def test_what_was_spent_is_remembered(tmp_path: Path) -> None:
    with Device("ann", tmp_path / "j").enrol(3, delta=0) as device:
        device.rate(1, 5)
    with Device("ann", tmp_path / "j") as device:
        assert device.remaining == 0
        with pytest.raises(UserError, match="budget"):
            device.rate(2, 5)
        assert device.spent == 2


def test_nothing_is_released_before_a_person_is_enrolled_or_after_she_left(tmp_path: Path) -> None:
    with Device("ann", tmp_path / "j") as device:
        assert (device.budget, device.remaining) == (None, 0)
        with pytest.raises(UserError, match=r"ann is not enrolled.* run murmurec device enrol"):
            device.rate(1, 5)
        device.enrol()
        assert str(device.budget) == "(20, 1e-06) in any 365 days"
        device.rate(1, 5)
        with pytest.raises(UserError, match="other terms"):
            device.enrol(30)
        device.withdraw()
        assert (device.budget, device.remaining, device.waiting) == (None, 0, 1)
        with pytest.raises(UserError, match="was withdrawn"):
            device.rate(2, 5)


def test_a_person_may_leave_after_a_silence_of_years(tmp_path: Path) -> None:
    with Device("ann", tmp_path / "j").enrol() as device:
        ann = bytes.fromhex(device.pseudonym)
        device._journal.release(ask(ann, 1, epoch=10_000))
        with pytest.raises(UserError, match="days after the last release"):
            device.rate(2, 5)
        device.withdraw()
        assert device.budget is None


def test_a_person_has_one_journal_in_a_folder(tmp_path: Path) -> None:
    with Device("ann", tmp_path / "j").enrol():
        pass
    with pytest.raises(UserError, match=r"j: holds an account of the same user.*one journal"):
        Device("ann ", tmp_path / "k")
    with Device("bob", tmp_path / "l").enrol() as device:
        device.rate(1, 5)


def test_a_simulated_account_without_a_limit_is_no_persons(tmp_path: Path) -> None:
    with Device("ann", tmp_path / "j") as device:
        name = bytes.fromhex(device.pseudonym)
        device._journal.enrol([name], NO_LIMIT, 0, simulated=True)
        with pytest.raises(UserError, match=r"ann is a simulated account.*need a budget"):
            device.rate(1, 5)
        assert (device.waiting, device.spent) == (0, 0)


def test_a_plan_that_the_budget_does_not_hold_is_refused(tmp_path: Path) -> None:
    with Device("ann", tmp_path / "j") as device:
        with pytest.raises(ValueError, match=r"plan 'rr:5:2\*1000': exceeds \(1, 1e-06\)"):
            device.enrol(1, plan="rr:5:2*1000")
        assert (device.budget, device.spending) == (None, {})
        device.enrol(1, plan="rr:5:1/4*4")
        assert device.budget is not None
        assert device.budget.plan == "rr:5:1/4*4"


def test_a_plan_changes_after_a_report(tmp_path: Path) -> None:
    with Device("ann", tmp_path / "j").enrol() as device:
        device.rate(1, 5)
        first = device.remaining or 0
        assert device.spending["all"] == device.spending["reports"]
        assert 1.99 < device.spending["all"].zeros <= device.spending["all"].replaced <= 2
        device.enrol(plan="adaptive")
        assert device.budget is not None
        assert device.budget.plan == "adaptive"
        assert 0 < (device.remaining or 0) < first


def test_users_of_one_journal_have_budgets_of_their_own(tmp_path: Path) -> None:
    with Device("ann", tmp_path / "j").enrol() as device:
        device.rate(1, 5)
    with Device("bob", tmp_path / "j").enrol() as device:
        assert device.spent == 0


def test_an_item_is_reported_once_unless_asked(tmp_path: Path) -> None:
    with Device("ann", tmp_path / "j").enrol() as device:
        device.rate(1, 5)
        assert device.rate(1, 5) is None  # a program that runs twice
        with pytest.raises(UserError):
            device.rate(1, 4)
        device.rate(1, 4, republish=True)
        assert device.spent == 4


@pytest.mark.parametrize(
    "arguments",
    [
        {"mechanism": "rr:5:2", "epsilon": 2},
        {"mechanism": "xx"},
        {"epsilon": 0},
        {"epsilon": float("nan")},
        {"epsilon": "much"},
        {"scale": (5, 1, 1)},
        {"user": ""},
        {"user": "a\0b"},
    ],
    ids=str,
)
def test_bad_arguments_leave_no_journal(tmp_path: Path, arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        Device(**{"user": "ann", "journal": tmp_path / "j"} | arguments)
    assert not (tmp_path / "j").exists()


@pytest.mark.parametrize("rating", [6, 0, 4.5, float("nan"), "5", True])
def test_a_rating_off_the_scale_costs_nothing(tmp_path: Path, rating: Any) -> None:
    with Device("ann", tmp_path / "j").enrol() as device:
        with pytest.raises(ValueError, match="must be a number on the scale"):
            device.rate(1, rating)
        assert device.spent == 0


def test_a_mechanism_that_hides_presence_is_refused_at_the_rating(tmp_path: Path) -> None:
    with (
        Device("ann", tmp_path / "j", mechanism="cell:5:2").enrol() as device,
        pytest.raises(ValueError, match="whole epochs"),
    ):
        device.rate(1, 5)


def test_an_epsilon_that_is_no_number_is_named_with_the_fix(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^epsilon much: give a number above 0"):
        Device("ann", tmp_path / "j", epsilon="much")
    for budget in (-1, float("inf")):
        with (
            Device("ann", tmp_path / "j") as device,
            pytest.raises(ValueError, match=rf"^budget {budget}: give a number above 0"),
        ):
            device.enrol(budget)


def test_a_broker_that_does_not_answer_is_an_error_and_loses_nothing(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    with Device("ann", tmp_path / "j").enrol() as device:
        device.rate(1, 5)
        with pytest.raises(UserError, match=rf"^{address}: the broker acknowledged 0 of 1"):
            device.publish(address, seconds=0.5, trust_journal=True)
        with pytest.raises(UserError, match=r"ratings\S* cannot be read"):
            device.publish(address, seconds=0.5)
        assert device.waiting == 1


def test_a_message_that_the_broker_refuses_is_an_error_though_others_were_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    queue = Queue(fate=lambda sent: full if sent else None)
    monkeypatch.setattr(clients, "producer", lambda _: queue)
    with Device("ann", tmp_path / "j").enrol() as device:
        device.rate(1, 5)
        device.rate(2, 3)
        with pytest.raises(UserError, match="nowhere:1: the broker acknowledged 1 of 2"):
            device.publish("nowhere:1", partitions=4, trust_journal=True)
        assert device.waiting == 1


@pytest.mark.kafka
def test_events_reach_the_topic_of_the_settings(
    tmp_path: Path, kafka: Any, topics: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MURMUREC_TOPIC_PREFIX", topics)
    monkeypatch.setenv("MURMUREC_BOOTSTRAP_SERVERS", kafka.bootstrap)
    with Device("ann", tmp_path / "j").enrol() as device:
        device.rate(1, 5)
        device.rate(2, 3)
        assert device.publish() == 2
        assert device.waiting == 0
        assert device.publish(kafka.bootstrap) == 0


@pytest.mark.kafka
def test_a_topic_that_is_missing_is_named(tmp_path: Path, kafka: Any) -> None:
    with Device("ann", tmp_path / "j", prefix="nobody").enrol() as device:
        device.rate(1, 5)
        with pytest.raises(UserError, match=r"topic nobody\.ratings\S* does not exist: create it"):
            device.publish(kafka.bootstrap)
        assert device.waiting == 1


def test_the_settings_say_whether_devices_sign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Device("ann", tmp_path / "j") as unsigned, Device("ann", tmp_path / "k") as other:
        signed = other.sign().pseudonym
        assert signed != unsigned.pseudonym
    monkeypatch.setenv("MURMUREC_DEVICES", "signed")
    with Device("ann", tmp_path / "k") as device:
        assert device.pseudonym == signed


def test_clean_ratings_are_kept_beside_the_journal_unless_refused(tmp_path: Path) -> None:
    with Device("ann", tmp_path / "j").enrol() as device:
        device.rate("alien", 5)
        with pytest.raises(UserError):
            device.rate("alien", 4)  # not released, so not kept
        assert [(row.item, row.stars) for row in device.rated] == [("alien", 5.0)]
    with Device("ann", tmp_path / "j", history=False).enrol() as device:
        device.rate("heat", 5)
        assert [row.item for row in device.rated] == ["alien"]
        assert device.forget_history() == 1
        assert device.rated == []
    with Device("bob", tmp_path / "k", history=False).enrol() as device:
        device.rate("heat", 5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["j", "j.history", "k"]


def test_a_history_that_cannot_be_written_is_a_warning_and_the_report_is_valid(
    tmp_path: Path,
) -> None:
    (tmp_path / "j.history").mkdir()
    with Device("ann", tmp_path / "j").enrol() as device:
        with pytest.warns(RuntimeWarning, match="cannot be written .* the rating is not kept"):
            device.rate("alien", 5)
        assert device.waiting == 1


def test_a_device_ranks_the_public_table_with_its_own_ratings(tmp_path: Path) -> None:
    side = item_side(np.random.default_rng(1), 4, 3)
    table = PublicTable(replace(side, keys=np.arange(1, 5, dtype=np.uint64)))
    with Device("ann", tmp_path / "j").enrol() as device:
        device.rate(2, 5)
        found = device.recommend(LocalRecommender(table), 3)
        later = device.recommend(LocalRecommender(table), 3, for_="next")
    assert (found.method, found.known) == ("links", 1)
    assert (found.for_, later.for_) == ("now", "next")  # it has just rated
    assert sorted(row.item for row in found.items) == [1, 3, 4]

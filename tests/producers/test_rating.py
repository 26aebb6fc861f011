"""One rating: whatever is wrong with it is found before anything is spent, and costs nothing."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from producers.device.requests import ReportSettings
from producers.journal import BudgetExhausted, Journal, Message
from producers.pseudonyms import pseudonym
from producers.scale import Scale
from stream_app import wire
from stream_app.errors import UserError
from stream_app.privacy import registry
from tests.producers.conftest import TOPIC
from tests.producers.journals import Enrolling, at
from tests.producers.journals import rated as enrolled_rate

RR = registry.parse("rr:5:2")
GOOD: dict[str, Any] = {
    "user": "ann", "item": 1193, "raw_rating": 4, "scale": Scale(), "mechanism": RR,
    "epoch": 20_000,
}  # fmt: skip


def publish(journal: Journal, **changed: Any) -> Message:
    arguments = GOOD | changed
    names = ("user", "item", "raw_rating", "mechanism")
    user, item, raw_rating, mechanism = (arguments.pop(name) for name in names)
    return enrolled_rate(
        user, item, raw_rating, ReportSettings(TOPIC, mechanism), journal=journal, **arguments
    )


def test_a_rating_becomes_an_event_of_its_users_device(journal: Journal) -> None:
    message = publish(journal, mechanism=registry.parse("none:5:inf"))
    where = int(wire.partitions_of(np.frombuffer(message.key, np.uint8).reshape(1, 32), 4)[0])
    event = wire.decode(message.key, message.value, where, wire.Intake({"none:5:inf": 5}))
    assert event.device == message.device == pseudonym(journal.key, "ann")
    assert (event.seq, event.items.tolist(), event.reports.tolist()) == (1, [1193], [3])
    assert event.epoch == 20_000


def test_every_rating_of_a_device_has_the_next_number(journal: Journal) -> None:
    assert [publish(journal, item=item).seq for item in (1, 2, "three")] == [1, 2, 3]
    assert publish(journal, user="bob").seq == 1


def test_a_rating_is_published_once_unless_again(journal: Journal) -> None:
    publish(journal)
    for mechanism in ("rr:5:2", "rr:5:1"):
        with pytest.raises(UserError, match=r"published already.*--republish"):
            publish(journal, mechanism=registry.parse(mechanism), raw_rating=5)
    assert publish(journal, republish=True).seq == 2
    assert publish(journal, item=7).seq == 3


def test_a_mechanism_that_hides_presence_is_not_sent_at_the_moment_of_rating(
    journal: Enrolling,
) -> None:
    journal.meet([pseudonym(journal.key, "ann")])
    before = journal.path.read_bytes()
    with pytest.raises(ValueError, match=r"cell:5:2: hides whether.*--emission epoch"):
        publish(journal, mechanism=registry.parse("cell:5:2"))
    assert journal.path.read_bytes() == before


def test_the_same_rating_and_a_budget_that_is_gone_leave_the_journal_as_it_was(
    tmp_path: Path,
) -> None:
    path = tmp_path / "device.journal"
    with at(path, epsilon=2) as journal:
        publish(journal)
        before = path.read_bytes()
        for wrong, error in (
            ({}, UserError), ({"item": 7}, BudgetExhausted), ({"republish": True}, BudgetExhausted),
        ):  # fmt: skip
            with pytest.raises(error):
                publish(journal, **wrong)
            assert path.read_bytes() == before


@pytest.mark.parametrize(
    "epsilon", ["0", "-1", "nan", "1e308", "'1'", "65", "", 0, 1.0, float("nan"), 1e308, None],
    ids=repr,
)  # fmt: skip
def test_an_epsilon_that_is_none_makes_no_mechanism(epsilon: Any) -> None:
    with pytest.raises(ValueError, match=r"epsilon.*at most 64"):
        registry.mechanism("rr", 5, epsilon)


BAD = [
    *(
        {"raw_rating": r}
        for r in (math.nan, math.inf, -math.inf, 0, 6, 4.5, True, "4", None, 2**63)
    ),
    *({"user": u} for u in ("", "a" * 2**20, "a\0", "\ud800", None, True)),
    *({"item": i} for i in (-1, 2**63, 2**64, "", "x" * 129, "\udfff", True, 1.0, None)),
    {"scale": Scale(0.5, 5, 0.5)},
    {"epoch": -1},
    {"epoch": 2**32},
]


@pytest.mark.parametrize("wrong", BAD, ids=lambda wrong: repr(wrong)[:30])
def test_bad_input_leaves_the_journal_as_it_was(wrong: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "device.journal"
    with at(path) as journal:
        journal.meet([pseudonym(journal.key, "ann")])
    before = path.read_bytes()
    with (
        at(path) as journal,
        pytest.raises(ValueError, match=r"user|item|scale|epoch") as caught,
    ):
        publish(journal, **wrong)
    assert path.read_bytes() == before
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200
    if "raw_rating" in wrong and wrong["raw_rating"] not in (0, True):
        assert str(wrong["raw_rating"]) not in str(caught.value).replace("1..5", "")

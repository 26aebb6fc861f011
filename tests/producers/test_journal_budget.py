"""Reported keys and budget: each item is reported once, and the limits hold."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from producers.journal import BudgetExhausted, Journal, Limits, PersonBudget, Spent
from producers.person.enrolment import ADAPTIVE
from stream_app.errors import UserError
from stream_app.privacy.mechanism import Mechanism
from tests.producers.journals import ANN, BOB, CELL, HALF, OPEN, RR, ask, at, release

DEE = b"d" * 16


def test_an_item_is_reported_once_unless_again_and_that_is_a_new_debit(journal: Journal) -> None:
    assert release(journal, ANN, 7)[0].seq == 1
    for mechanism in (RR, HALF, CELL):  # the memo is of the rating, whatever reports on it
        with pytest.raises(
            UserError, match=r"rating of this item was published already.*--republish"
        ):
            release(journal, ANN, 7, mechanism=mechanism)
    assert release(journal, BOB, 7)[0].seq == 1
    assert journal.spent(ANN)["value"] == Spent("value", 2 * 10**9, 0, 1)
    assert release(journal, ANN, 7, republish=True)[0].seq == 2
    assert journal.spent(ANN)["value"].nano == 4 * 10**9
    keys = np.array([6, 7, 2**64 - 1], np.uint64)
    assert journal.unreported(ANN, keys).tolist() == [True, False, True]


def test_a_limit_may_allow_more_reports_of_an_item(path: Path) -> None:
    with at(path, limits=Limits(reports=2)) as journal:
        release(journal, ANN, 7)
        release(journal, ANN, 7)
        with pytest.raises(UserError, match="published already"):
            release(journal, ANN, 7)
    with at(path, limits=Limits(reports=3)) as journal:
        release(journal, ANN, 7)


def test_a_budget_holds_to_the_last_nano_and_over_reopening(path: Path) -> None:
    with at(path, epsilon=5, plan=ADAPTIVE) as journal:
        release(journal, ANN, 1, 2)
        assert journal.room(ANN, RR, 20_000) == 0
        assert journal.room(ANN, HALF, 20_000) == 2
        with pytest.raises(BudgetExhausted, match=r"is \(5, 0\) in all.*holds 0 reports more"):
            release(journal, ANN, 3)
        release(journal, BOB, 3)
    with at(path) as journal:
        release(journal, ANN, 3, 4, mechanism=HALF)
        assert journal.room(ANN, HALF, 20_000) == 0
        with pytest.raises(BudgetExhausted):
            release(journal, ANN, 5, mechanism=HALF)
        journal.raise_budget([ANN], Fraction(7))
        assert journal.room(ANN, RR, 20_000) == 1
        release(journal, ANN, 5)


def test_an_event_is_paid_for_as_a_whole_or_not_at_all(path: Path) -> None:
    with at(path, epsilon=5) as journal:
        journal.meet([ANN, BOB])
        before = path.read_bytes()
        with pytest.raises(BudgetExhausted):
            release(journal, ANN, 1, 2, 3)
        with pytest.raises(BudgetExhausted):  # gone in the middle of a batch
            journal.commit([ask(ANN, 1), ask(BOB, 1), ask(ANN, 2), ask(ANN, 3)])
        with pytest.raises(UserError, match="published already"):  # by the same batch
            journal.commit([ask(ANN, 1), ask(ANN, 1)])
        assert path.read_bytes() == before
        assert journal.spent(ANN) == journal.spent(BOB) == {}
        assert journal.pending() == []
        assert [m.seq for m in journal.commit([ask(ANN, 1), ask(BOB, 1), ask(ANN, 2)])] == [1, 1, 2]


@pytest.mark.parametrize(("first", "second"), [(RR, CELL), (CELL, RR)], ids=["value", "cell"])
def test_one_limit_holds_for_values_and_cells_together(
    first: Mechanism, second: Mechanism, path: Path
) -> None:
    """A cell's epsilon counts for the value too: a rating reported under both costs the sum."""
    with at(path, epsilon=6, plan=ADAPTIVE) as journal:
        release(journal, ANN, 1, 2, mechanism=first)
        for mechanism in (first, second):
            assert journal.room(ANN, mechanism, 20_000) == 1
            with pytest.raises(BudgetExhausted, match="holds 1 report more"):
                release(journal, ANN, 2, 3, mechanism=mechanism, republish=True)
        with pytest.raises(BudgetExhausted):  # also within one record
            journal.commit([ask(ANN, 3, mechanism=first), ask(ANN, 4, mechanism=second)])
        release(journal, ANN, 2, mechanism=second, republish=True)
        assert journal.room(ANN, first, 20_000) == journal.room(ANN, second, 20_000) == 0
        assert {kind: spent.nano for kind, spent in journal.spent(ANN).items()} == {
            str(first.adjacency): 4 * 10**9, str(second.adjacency): 2 * 10**9,
        }  # fmt: skip


def test_a_clock_set_far_forward_is_refused_unless_it_is_right(path: Path) -> None:
    with at(path) as journal:
        assert journal.epoch(20_000) == 20_000  # a new journal has nothing to compare with
        release(journal, ANN, 1, epoch=20_000)
        assert journal.epoch(20_366) == 20_366
        before = path.read_bytes()
        sentence = r"says day 20367, 367 days after the last release.*20000.*--trust-clock"
        with pytest.raises(UserError, match=sentence):
            journal.epoch(20_367)
        with pytest.raises(UserError, match=sentence):
            release(journal, ANN, 2, epoch=20_367)
        assert path.read_bytes() == before
    with at(path, limits=Limits(trust_clock=True)) as journal:
        release(journal, ANN, 2, epoch=journal.epoch(30_000))
    with at(path) as journal:
        assert journal.epoch(20_001) == 30_000


def test_what_protects_nothing_fits_no_budget(path: Path) -> None:
    with at(path, epsilon=4) as journal:
        assert journal.room(ANN, OPEN, 20_000) == 0
        with pytest.raises(BudgetExhausted, match="none:5:inf protects nothing"):
            release(journal, ANN, 1, mechanism=OPEN)
    with at(path.with_name("simulation.journal")) as journal:
        release(journal, BOB, 1, mechanism=OPEN)
        assert journal.spent(BOB) == {"nothing": Spent("nothing", 0, 0, 1)}


def test_a_window_forgets_what_is_old_and_a_clock_set_back_opens_nothing(path: Path) -> None:
    with at(path, epsilon=4, window=3) as journal:
        release(journal, ANN, 1, epoch=100)
        release(journal, ANN, 2, epoch=101)
        for epoch in (102, 100, 0):
            assert journal.epoch(epoch) == max(epoch, 101 if epoch != 102 else 102)
            with pytest.raises(BudgetExhausted, match="in any 3 days"):
                release(journal, ANN, 3, epoch=epoch)
        release(journal, ANN, 3, epoch=103)  # epoch 100 has left the window
        with pytest.raises(BudgetExhausted):
            release(journal, ANN, 4, epoch=103)
        with pytest.raises(BudgetExhausted):
            release(journal, ANN, 4, epoch=50)
    with at(path, epsilon=4, window=3) as journal:
        assert journal.epoch(20) == 103
        release(journal, BOB, 1, 2, epoch=60)  # stored as of epoch 103
        assert journal.epoch(20) == 103
        assert journal.room(BOB, RR, 60) == journal.room(BOB, RR, 105) == 0
        assert journal.room(BOB, RR, 106) == 2
        release(journal, ANN, 4, epoch=104)
        journal.enrol([DEE], PersonBudget(Fraction(4), Fraction(0), None), 0)
        release(journal, DEE, 1, 2, epoch=104)
        with pytest.raises(BudgetExhausted):
            release(journal, DEE, 5, epoch=400)

"""Accounts of persons: what a budget holds, exactly, and what becomes of an older journal."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import comb
from pathlib import Path

import msgspec
import numpy as np
import pytest

from producers.fleet.population import populate
from producers.identities import Identities
from producers.journal import BudgetExhausted, Journal, Limits, PersonBudget, Request
from producers.journal.frames import HEADER_BYTES, Kind, frame, header, scan
from producers.journal.records import Commit, decode_commit
from producers.person.enrolment import NANO, NO_LIMIT, Enrolment
from producers.person.reports import Used, held, room
from producers.siblings import check_only_journal
from stream_app.errors import UserError
from stream_app.privacy import registry
from tests.producers.conftest import dataset
from tests.producers.journals import ANN, BOB, CELL, HALF, RR, ask

KEY = bytes(range(32))
TODAY = 20_000


def enrolled(path: Path, budget: PersonBudget | None = None, **changed: object) -> Journal:
    journal = Journal.open(path, **changed)  # type: ignore[arg-type]
    if journal.enrolment(ANN) is None:
        journal.enrol([ANN], budget or PersonBudget(), TODAY - 1)
    return journal


def test_twenty_hold_ninety_three_reports_of_a_half(path: Path) -> None:
    with enrolled(path) as journal:
        quarter = registry.parse("rr:5:1/4")
        assert (journal.room(ANN, HALF, TODAY), journal.room(ANN, quarter, TODAY)) == (93, 391)
        journal.release(ask(ANN, *range(40), mechanism=HALF))
        assert journal.room(ANN, HALF, TODAY) == 53
        with pytest.raises(BudgetExhausted, match="planned for rr:5:1/2, and rr:5:2 is another"):
            journal.release(ask(ANN, 100))
        with pytest.raises(BudgetExhausted, match="holds 53 reports more of rr:5:1/2"):
            journal.release(ask(ANN, *range(100, 154), mechanism=HALF))
    with enrolled(path) as journal:  # also after a restart, and from a compacted file
        journal.compact()
    with enrolled(path) as journal:
        journal.release(ask(ANN, *range(100, 153), mechanism=HALF))
        assert journal.room(ANN, HALF, TODAY + 364) == 0
        assert journal.room(ANN, HALF, TODAY + 365) == 93
        assert [each.budget.plan for each in journal.enrolled()] == ["rr:5:1/2"]


def test_one_record_decides_the_plan_for_its_later_requests(path: Path) -> None:
    with enrolled(path) as journal, pytest.raises(BudgetExhausted, match="planned for rr:5:1/2"):
        journal.commit([ask(ANN, 1, mechanism=HALF), ask(ANN, 2, mechanism=RR)])


def test_an_adaptive_plan_takes_any_mechanism_and_holds_less_of_one(path: Path) -> None:
    with enrolled(path, PersonBudget(plan="adaptive")) as journal:
        first = journal.room(ANN, HALF, TODAY)
        assert first is not None
        assert 40 < first < 93
        journal.commit([ask(ANN, 1, mechanism=HALF), ask(ANN, 2, mechanism=CELL)])
        assert (journal.room(ANN, HALF, TODAY) or 0) < first - 1


def test_a_plan_of_counts_holds_each_mechanism_to_its_count(path: Path) -> None:
    with enrolled(path, PersonBudget(plan="rr:5:1/2*3,rr:5:2*1")) as journal:
        assert (journal.room(ANN, HALF, TODAY), journal.room(ANN, RR, TODAY)) == (3, 1)
        journal.commit([ask(ANN, 1, 2, mechanism=HALF), ask(ANN, 3, mechanism=RR)])
        assert (journal.room(ANN, HALF, TODAY), journal.room(ANN, RR, TODAY)) == (1, 0)
        assert journal.room(ANN, CELL, TODAY) == 0


def test_a_plan_of_counts_holds_nothing_beside_old_reports_that_leave_it_no_room() -> None:
    budget = PersonBudget(Fraction(20), plan=f"{HALF.id}*90")
    old = {"": Used(9, 2 * NANO, 0)}
    assert room(budget, {}, HALF) == 90
    assert room(budget, old, HALF) == 0
    assert room(PersonBudget(Fraction(23), plan=budget.plan), old, HALF) == 90


def test_nothing_is_released_without_an_account(path: Path) -> None:
    with Journal.open(path) as journal:
        before = path.read_bytes()
        with pytest.raises(UserError, match=r"is not enrolled, .*murmurec device enrol"):
            journal.release(ask(ANN, 1))
        assert (journal.room(ANN, RR, TODAY), path.read_bytes()) == (0, before)
        journal.enrol([ANN, BOB], PersonBudget(), TODAY)
        assert [each.device for each in journal.enrolled()] == [ANN, BOB]
        assert (journal.enrolled(TODAY), len(journal.enrolled(TODAY + 1))) == ([], 2)
        before = path.read_bytes()
        assert journal.enrol([ANN, BOB], PersonBudget(), TODAY + 5) == 0
        assert path.read_bytes() == before
        with pytest.raises(UserError, match=r"enrolled as the account of a person.*--raise"):
            journal.enrol([ANN], PersonBudget(Fraction(30)), TODAY)


@pytest.mark.parametrize(
    ("first", "sentence"),
    [(False, "holds the account of a person, and a simulation has a journal of its own"),
     (True, "holds a simulation, and a person has a journal of their own")],
    ids=["person", "simulation"],
)  # fmt: skip
def test_a_journal_of_persons_takes_no_simulation_and_the_other_way_round(
    first: bool, sentence: str, path: Path
) -> None:
    with Journal.open(path) as journal:
        journal.enrol([ANN], PersonBudget(), TODAY, simulated=first)
        before = path.read_bytes()
        for device in (ANN, BOB):
            with pytest.raises(UserError, match=sentence):
                journal.enrol([device], PersonBudget(), TODAY, simulated=not first)
        assert path.read_bytes() == before


MILLION = Fraction(10**6)


@pytest.mark.parametrize("plan", ["adaptive", f"{HALF.id}*10"])
def test_a_budget_that_its_plan_cannot_hold_is_refused_when_it_is_set(
    path: Path, plan: str
) -> None:
    more, sentence = PersonBudget(MILLION + 1, plan=plan), "1000001.*1000000 at most.*--plan sum"
    with Journal.open(path) as journal:
        before = path.read_bytes()
        with pytest.raises(UserError, match=sentence):
            journal.enrol([ANN], more, TODAY)
        assert path.read_bytes() == before
        journal.enrol([ANN], PersonBudget(MILLION, plan=plan), TODAY)
        with pytest.raises(UserError, match=sentence):
            journal.raise_budget([ANN], MILLION + 1)
        assert (journal.room(ANN, HALF, TODAY) or 0) >= 10
        journal.enrol([BOB], PersonBudget(MILLION + 1), TODAY)  # one mechanism, exact
        with pytest.raises(UserError, match=sentence):
            journal.set_plan([BOB], plan)
        journal.set_plan([BOB], "sum")
        assert journal.room(BOB, HALF, TODAY) == 2 * MILLION + 2


def test_a_journal_with_a_budget_that_its_plan_cannot_hold_is_read_and_releases_nothing(
    path: Path,
) -> None:
    with Journal.open(path) as journal:  # as an earlier murmurec enrolled
        journal._record([Enrolment(ANN, TODAY - 1, PersonBudget(MILLION + 1, plan="adaptive"))])
    with Journal.open(path) as journal:
        assert journal.room(ANN, HALF, TODAY) == 0
        with pytest.raises(BudgetExhausted, match="holds 0 reports more"):
            journal.release(ask(ANN, 1, mechanism=HALF))


def test_a_withdrawn_account_comes_back_with_what_it_has_spent(path: Path) -> None:
    with enrolled(path) as journal:
        journal.release(ask(ANN, 1, 2, mechanism=HALF))
        assert journal.withdraw([ANN], TODAY) == 1
        assert journal.withdraw([ANN], TODAY + 1) == 0
        assert (journal.enrolled(), journal.room(ANN, HALF, TODAY)) == ([], 0)
    with enrolled(path) as journal:
        with pytest.raises(UserError, match=rf"was withdrawn in epoch {TODAY}"):
            journal.release(ask(ANN, 3, mechanism=HALF))
        assert journal.enrol([ANN], PersonBudget(), TODAY + 2) == 1
        assert journal.room(ANN, HALF, TODAY) == 91


def test_what_a_clock_of_1970_dated_is_not_forgotten_when_it_is_set_right(path: Path) -> None:
    with enrolled(path) as journal:  # yesterday; today the device starts without the time
        journal.release(ask(ANN, *range(40), mechanism=HALF, epoch=5))
    with enrolled(path, limits=Limits(trust_clock=True)) as journal:
        assert journal.room(ANN, HALF, TODAY) == 53
        journal.compact()
    with enrolled(path, limits=Limits(trust_clock=True)) as journal:
        assert journal.room(ANN, HALF, TODAY) == 53
        journal.release(ask(ANN, *range(40, 93), mechanism=HALF, epoch=TODAY))
        assert journal.room(ANN, HALF, TODAY + 363) == 0
        assert journal.room(ANN, HALF, TODAY + 364) == 40


def test_an_exact_plan_is_chosen_before_the_first_report_of_a_window(path: Path) -> None:
    with enrolled(path) as journal:
        journal.set_plan([ANN], "adaptive")
        journal.set_plan([ANN], "rr:5:2")
        journal.release(ask(ANN, 1))
        with pytest.raises(UserError, match=r"under the plan rr:5:2, .* to adaptive"):
            journal.set_plan([ANN], "rr:5:1/2", TODAY)
        with pytest.raises(UserError, match="has released under the plan rr:5:2"):
            journal.enrol([ANN], PersonBudget(plan="rr:5:2*4"), TODAY + 364)
        journal.enrol([ANN], PersonBudget(plan="rr:5:1/2"), TODAY + 365)
        assert journal.room(ANN, HALF, TODAY + 365) == 93


def test_a_plan_is_changed_from_now_on_and_nothing_is_forgiven(path: Path) -> None:
    fresh = PersonBudget(plan="adaptive")
    with enrolled(path) as journal:
        journal.release(ask(ANN, 1, mechanism=HALF))
        assert journal.enrol([ANN], fresh, TODAY) == 1
        assert journal.enrol([ANN], fresh, TODAY) == 0
        # 93 reports of 1/2 are 8.0714e-7 at epsilon 20, which the filter has less, for good.
        (terms,) = journal.enrolled()
        assert 8.07e-7 < terms.budget.held < 8.08e-7
        left = journal.room(ANN, HALF, TODAY)
        assert left == room(terms.budget, {HALF.id: Used(1)}, HALF)
        assert 60 < left < room(fresh, {HALF.id: Used(1)}, HALF)
        with pytest.raises(UserError, match="keep adaptive, which takes every mechanism, or wait"):
            journal.set_plan([ANN], "sum", TODAY)
        journal.release(ask(ANN, 2))
        journal.compact()
    with enrolled(path) as journal:
        assert [each.budget for each in journal.enrolled()] == [terms.budget]
        assert 0 < journal.room(ANN, HALF, TODAY) < left - 4
        assert journal.room(ANN, HALF, TODAY + 365) == left + 1
        journal.set_plan([ANN], "sum", TODAY + 365)  # nothing of the window was released
        assert [each.budget.held for each in journal.enrolled()] == [0]


def test_a_spent_exact_plan_leaves_the_filter_nothing_until_it_leaves_the_window(
    path: Path,
) -> None:
    with enrolled(path) as journal:
        journal.release(ask(ANN, *range(93), mechanism=HALF))
        journal.set_plan([ANN], "adaptive", TODAY)
        assert journal.room(ANN, HALF, TODAY) == journal.room(ANN, RR, TODAY) == 0
        left = journal.room(ANN, HALF, TODAY + 365)
        journal.set_plan([ANN], "adaptive", TODAY + 365)  # a plan made beforehand again
        assert 0 < (left or 0) < (journal.room(ANN, HALF, TODAY + 365) or 0)


def test_no_strategy_that_changes_the_plan_exceeds_delta() -> None:
    """Change after lucky reports alone: the probabilities of both branches add up, exactly.

    Randomized response between two values: loss k h - (n - k) h after k of n reports that agree.
    """
    budget, id = PersonBudget(Fraction(8), Fraction(1, 1000), None), "rr:2:1/2"
    half = registry.parse(id)
    most = room(budget, {}, half) or 0
    kept = held(replace(budget, plan=id), {})
    changed = replace(budget, plan="adaptive", held=kept)
    table = [[float(count) / 2**64 for count in row] for row in half.table().counts]
    h, early = np.log(table[0][0] / table[0][1]), 4
    left = room(changed, {id: Used(early)}, half) or 0
    assert 0 < left < most - early

    def delta(whole: int, lucky: bool) -> float:
        total = 0.0
        for first in range(early + 1):
            if (first == early) is not lucky:
                continue
            for later in range(whole + 1):
                agree, reports = first + later, early + whole
                ways = comb(early, first) * comb(whole, later)
                p = ways * table[0][0] ** agree * table[0][1] ** (reports - agree)
                total += p * max(0.0, 1 - np.exp(8 - h * (2 * agree - reports)))
        return total

    assert delta(left, lucky=True) + delta(most - early, lucky=False) <= budget.delta


# --- one journal for a person ---------------------------------------------------------------------


def test_a_second_journal_of_a_person_is_refused_unless_a_test(tmp_path: Path) -> None:
    def enrol(name: str, user: str, *, test: bool = False, signed: bool = False) -> None:
        with Journal.open(tmp_path / name, test=test) as journal:
            check_only_journal(journal, [user])
            device = Identities(journal.key, signed=signed).pseudonym(user)
            journal.enrol([device], PersonBudget(), TODAY)

    enrol("a", "ann")
    with pytest.raises(UserError, match=r"/a: holds an account of the same user.*--test"):
        enrol("b", "ann", signed=True)
    enrol("c", "bob")
    enrol("d", "ann", test=True)  # and it stays one, so that it is none of the others' business
    with Journal.open(tmp_path / "d") as journal:
        assert (journal.test, journal.unsafe) == (True, True)
        journal.compact()
    with Journal.open(tmp_path / "d") as journal:
        assert journal.test
    (tmp_path / "text").write_text("hello")
    enrol("a", "ann")
    with pytest.raises(UserError, match="holds accounts that are no test"):
        Journal.open(tmp_path / "a", test=True)


# --- a journal of an earlier murmurec -------------------------------------------------------------


def older(path: Path, request: Request | None = None) -> None:
    """Write the file as it was before there were accounts: no mechanisms, an unkeyed digest."""
    with Journal.open(path) as journal:
        journal.enrol([ANN], NO_LIMIT, TODAY - 1, simulated=True)
        progress = journal.begin(bytes(16), "rr:5:2", 9)
        request = request or ask(ANN, 1, 2, 3)
        journal.commit([request], msgspec.structs.replace(progress, reserved=3))
    found = scan(path.read_bytes())
    (commit,) = [decode_commit(each.body) for each in found.frames if each.kind is Kind.COMMIT]
    row = list(msgspec.msgpack.decode(msgspec.msgpack.encode(commit)))
    assert len(row) == len(msgspec.structs.fields(Commit))
    body = msgspec.msgpack.encode(row[:-2])
    path.write_bytes(header(found.key, HEADER_BYTES) + frame(Kind.COMMIT, body, HEADER_BYTES))


def test_an_older_journal_is_read_and_its_spending_counts_as_a_sum(path: Path) -> None:
    older(path)
    with Journal.open(path) as journal:
        assert len(journal.pending()) == 1
        assert not journal.unreported(ANN, np.arange(1, 4, dtype=np.uint64)).any()
        assert journal.spent(ANN)["value"].nano == 6 * 10**9
        with pytest.raises(UserError, match="is not enrolled"):
            journal.release(ask(ANN, 4))
        journal.enrol([ANN], PersonBudget(), TODAY)
        with enrolled(path.with_name("fresh"), PersonBudget(Fraction(14))) as fresh:
            assert journal.room(ANN, HALF, TODAY) == fresh.room(ANN, HALF, TODAY)
        assert bytes(16) not in path.read_bytes().replace(bytes(17), b"")  # forgotten when opened
    with Journal.open(path) as journal:
        assert not journal._state.replays
        journal.release(ask(ANN, 4, mechanism=HALF))


def test_a_rating_of_an_older_journal_may_have_cost_what_its_day_did(path: Path) -> None:
    older(path)  # three reports of 2 on one day: an average of 2 is no bound
    with Journal.open(path) as journal:
        account = journal._state.accounts[ANN]
        assert account.worst_rating == 6 * NANO
        journal.enrol([ANN], PersonBudget(plan="adaptive"), TODAY)
        journal.release(ask(ANN, 1, mechanism=HALF, republish=True))
        assert account.worst_rating == 6 * NANO + NANO // 2
        account.spend((TODAY, "value", "rating", ""), 100 * NANO, 0, 3)
        assert account.worst_rating == (64 + 42) * NANO  # two reports, and one costs 64 at most
    with enrolled(path.with_name("fresh"), PersonBudget(plan="adaptive")) as journal:
        journal.commit([ask(ANN, 1, 2, mechanism=HALF), ask(ANN, 3, mechanism=RR)])
        assert journal._state.accounts[ANN].worst_rating == 2 * NANO


def test_a_plan_of_counts_holds_what_an_older_journal_has_left(path: Path) -> None:
    older(path)
    with Journal.open(path) as journal:  # has spent 6
        journal.enrol([ANN], PersonBudget(plan="rr:5:1/2*93"), TODAY)
        assert journal.room(ANN, HALF, TODAY) == 0
        assert journal.room(ANN, HALF, TODAY + 365) == 93
        journal.set_plan([ANN], "rr:5:1/2*20")
        assert journal.room(ANN, HALF, TODAY) == 20


def test_counts_that_the_budget_does_not_hold_release_nothing(path: Path) -> None:
    with enrolled(path, PersonBudget(Fraction(1), plan="rr:5:2*1000")) as journal:
        assert journal.room(ANN, RR, TODAY) == 0
        with pytest.raises(BudgetExhausted, match="holds 0 reports more"):
            journal.release(ask(ANN, 1))


def test_what_a_data_set_is_known_by_needs_the_key_and_holds_no_rating() -> None:
    first, second = ([3.0, 4.0], [1.0, 5.0])
    data = [dataset([1, 2], [7, 8], ratings) for ratings in (first, second)]
    assert populate(data[0], KEY).digest == populate(data[1], KEY).digest
    assert populate(data[0], KEY).digest != populate(data[0], bytes(32)).digest
    assert len(populate(data[0], KEY).digest) == 32


def test_limits_are_of_reports_alone() -> None:
    assert Limits() == Limits(reports=1, trust_clock=False)

"""What a release costs: exact, rounded against the spender, never of two kinds together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.journal.budget import Limits, debit
from producers.person.enrolment import ATTO, NANO, NO_LIMIT, Enrolment, PersonBudget
from producers.person.reports import Used, room
from stream_app.errors import UserError
from stream_app.privacy import registry
from stream_app.privacy.privacy_map import Adjacency


@dataclass(frozen=True)
class Claim:
    epsilon: Fraction | None
    delta: Fraction = Fraction(0)
    adjacency: Adjacency = Adjacency.VALUE
    id: str = "claim"


EPSILONS = st.fractions(min_value=0, max_value=64, max_denominator=10**6)


@given(EPSILONS, st.integers(1, 10**6), EPSILONS.filter(lambda e: e >= Fraction(1, NANO)))
def test_what_fits_in_integers_fits_in_truth(
    epsilon: Fraction, reports: int, budget: Fraction
) -> None:
    cost, pure = debit(Claim(epsilon), reports), PersonBudget(budget, Fraction(0), None)
    assert pure.nano is not None
    assert Fraction(cost.nano, NANO) >= reports * epsilon
    assert Fraction(pure.nano, NANO) <= budget
    assert Fraction(cost.nano, NANO) - reports * epsilon < Fraction(1, NANO)
    left = room(pure, {}, Claim(epsilon))
    assert left is not None
    assert left * epsilon <= budget
    assert epsilon == 0 or (left + 1) * epsilon > Fraction(pure.nano, NANO)


def test_a_third_is_rounded_up_once_for_a_release() -> None:
    assert debit(Claim(Fraction(1, 3)), 1).nano == 333_333_334
    assert debit(Claim(Fraction(1, 3)), 3).nano == NANO
    assert debit(Claim(Fraction(1, 3)), 4).nano == 1_333_333_334
    assert debit(registry.parse("rr:5:2"), 7).nano == 14 * NANO
    assert debit(Claim(Fraction(2), Fraction(1, 10**6)), 2).atto == 2 * ATTO // 10**6


def test_what_claims_nothing_costs_nothing_and_says_so() -> None:
    cost = debit(registry.parse("none:5:inf"), 9)
    assert (cost.adjacency, cost.nano, cost.atto, cost.reports) == ("nothing", 0, 0, 9)


@pytest.mark.parametrize("epsilon", [2, 2.0, "2", float("nan"), Fraction(-1)], ids=repr)
def test_only_an_exact_number_is_a_debit(epsilon: Any) -> None:
    with pytest.raises(ValueError, match="exact number"):
        debit(Claim(epsilon), 1)


@pytest.mark.parametrize(
    "wrong",
    [{"epsilon": e} for e in (0, Fraction(0), Fraction(-1), 2, 2.5, float("nan"), "1", 1e308,
                              Fraction(10**400), Fraction(10) ** 5000, Fraction(1, 10**10))]
    + [{"window": w} for w in (0, -1, 2.0, True, 2**32, "3")]
    + [{"delta": d} for d in (0.5, Fraction(-1), Fraction(2), "1", Fraction(1, 999))]
    + [{"plan": p} for p in (None, 3, "x" * 201)],
    ids=lambda wrong: next(iter(wrong)),
)  # fmt: skip
def test_a_budget_that_is_none_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"budget|window|delta|plan") as caught:
        PersonBudget(**wrong)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("reports", [0, -1, 1.5, True])
def test_a_limit_of_no_reports_is_refused(reports: Any) -> None:
    with pytest.raises(ValueError, match="reports"):
        Limits(reports)


def test_the_smaller_of_epsilon_and_delta_decides_what_fits() -> None:
    both = Claim(Fraction(2), Fraction(1, 10**6))
    wide, narrow = (PersonBudget(Fraction(7), Fraction(d, 10**6), None) for d in (9, 2))
    assert (room(wide, {}, both), room(narrow, {}, both)) == (3, 2)
    assert room(NO_LIMIT, {}, both) is None
    assert (room(NO_LIMIT, {}, Claim(None)), room(wide, {}, Claim(None))) == (None, 0)


def test_one_planned_mechanism_leaves_no_room_for_another() -> None:
    budget, claim = PersonBudget(Fraction(7), Fraction(0), plan="claim"), Claim(Fraction(2))
    assert room(budget, {"claim": Used(2, 4 * NANO, 0)}, claim) == 1
    assert room(budget, {}, Claim(Fraction(2), id="other")) == 0
    mixed = {"claim": Used(1, 2 * NANO, 0), "other": Used(3, 3 * NANO, 0)}
    assert room(replace(budget, plan="adaptive"), mixed, claim) == 1
    # An older murmurec recorded no mechanism: what it spent counts as a sum.
    assert room(budget, {"": Used(1, 3 * NANO, 0), "claim": Used(1, 2 * NANO, 0)}, claim) == 1


def test_a_budget_says_what_it_is() -> None:
    assert str(NO_LIMIT) == "no limit"
    assert str(PersonBudget()) == "(20, 1e-06) in any 365 days"
    assert str(PersonBudget(Fraction(5, 2), Fraction(0), None)) == "(2.5, 0) in all"


def test_a_budget_is_raised_and_never_lowered() -> None:
    budget = PersonBudget(plan="rr:5:2")
    assert budget.raised(Fraction(30)) == PersonBudget(Fraction(30), plan="rr:5:2")
    for less in (Fraction(20), Fraction(19)):
        with pytest.raises(UserError, match=r"can only be raised.*device withdraw"):
            budget.raised(less)
    with pytest.raises(UserError, match="can only be raised"):
        NO_LIMIT.raised(Fraction(10**8))
    with pytest.raises(ValueError, match="the account of a person has a limit"):
        Enrolment(bytes(16), 1, NO_LIMIT)

"""Figures that are known from elsewhere, at delta 1e-6 where nothing else is said."""

from __future__ import annotations

from fractions import Fraction

import pytest

from stream_app.privacy.accounting.budget_plans import pin, read_plan
from stream_app.privacy.accounting.whole_person import report_loss
from tests.stream_app.privacy.mechanisms import EVERY_PROTECTING, name


@pytest.mark.parametrize(
    ("id", "count", "delta", "epsilon"),
    [
        ("rr:5:1/10", 100, 1e-6, 2.96),
        ("rr:5:1/2", 100, 1e-6, 20.9),
        ("cell:5:1/2", 200, 1e-6, 29.9),
    ],
)
def test_many_reports_cost_less_than_their_sum(id, count, delta, epsilon):
    found = report_loss(id).self_composed(count).epsilon(delta)
    assert found == pytest.approx(epsilon, abs=0.05 if epsilon > 3 else 0.005)


@pytest.mark.parametrize(("id", "count"), [("rr:5:1/2", 93), ("rr:5:1/4", 391)])
def test_a_budget_of_twenty_holds_more_reports_than_the_sum_allows(id, count):
    budget = Fraction(20), Fraction(1, 10**6)
    assert pin(id, *budget) == f"{id}*{count}"
    assert read_plan(f"{id}*{count}", *budget).room({}, id) == count
    assert read_plan("sum", *budget).room({}, id) < count / 2


@pytest.mark.parametrize("mechanism", EVERY_PROTECTING, ids=name)
def test_one_report_of_any_mechanism_costs_its_claim_and_no_more(mechanism):
    """Two directions, every level and mask; a larger delta never costs more."""
    person, replaced = report_loss(mechanism.id), report_loss(mechanism.id, "replaced")
    claim = float(mechanism.epsilon)
    assert person.epsilon(0.0) <= replaced.epsilon(0.0) <= claim * (1 + 1e-12)
    assert replaced.epsilon(0.0) == pytest.approx(claim, rel=1e-9)
    assert person.epsilon(1e-6) <= person.epsilon(0.0)
    assert person.self_composed(2).delta(0.0) >= person.delta(0.0)

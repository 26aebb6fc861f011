"""Figures that are known from elsewhere, at delta 1e-6 where nothing else is said."""

from __future__ import annotations

from fractions import Fraction

import pytest

from stream_app.privacy.accounting.budget_plans import pin, read_plan
from stream_app.privacy.accounting.gaussian import gaussian_epsilon
from stream_app.privacy.accounting.whole_person import report_loss
from stream_app.privacy.profiles.profile_mechanism import MOST_ITEMS
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


def test_ten_projections_of_an_item_cost_less_than_their_sum():
    ten = report_loss("jlt:1000:2:1/1000000", "rating").self_composed(10)
    assert ten.epsilon(1e-5) == pytest.approx(6.6, abs=0.05)
    (projection, count) = ten.forward.members[0]
    exact = float(gaussian_epsilon(Fraction(1, 10**5), projection.square(count)))
    assert exact < ten.epsilon(1e-5) < exact * (1 + 2e-5)


@pytest.mark.parametrize(("id", "count"), [("rr:5:1/2", 93), ("rr:5:1/4", 391)])
def test_a_budget_of_twenty_holds_more_reports_than_the_sum_allows(id, count):
    budget = Fraction(20), Fraction(1, 10**6), MOST_ITEMS
    assert pin(id, *budget) == f"{id}*{count}"
    assert read_plan(f"{id}*{count}", *budget).room({}, id) == count
    assert read_plan("sum", *budget).room({}, id) < count / 2


@pytest.mark.parametrize("mechanism", EVERY_PROTECTING, ids=name)
def test_one_report_of_any_mechanism_costs_its_claim_and_no_more(mechanism):
    """Two directions, every level and mask; a larger delta never costs more."""
    person, rating = report_loss(mechanism.id), report_loss(mechanism.id, "rating")
    claim = float(mechanism.epsilon)
    assert person.epsilon(0.0) <= rating.epsilon(0.0) <= claim * (1 + 1e-12)
    assert rating.epsilon(0.0) == pytest.approx(claim, rel=1e-9)
    assert person.epsilon(1e-6) <= person.epsilon(0.0)
    assert person.self_composed(2).delta(0.0) >= person.delta(0.0)

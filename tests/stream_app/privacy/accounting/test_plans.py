"""Plans of a budget: what fits, which text is one, and the Renyi filter."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from stream_app.privacy.accounting.budget_plans import Plan, largest_count, pin, read_plan
from stream_app.privacy.accounting.dominating_pair import DominatingPair
from stream_app.privacy.accounting.renyi import SCALE, capacity, divergence
from stream_app.privacy.accounting.whole_person import report_loss
from stream_app.privacy.exact.gaussian_calibration import exponential

F = Fraction
RR = "rr:5:1/2"
BUDGET = F(20), F(1, 10**6)


def planned(plan: str) -> Plan:
    return read_plan(pin(plan, *BUDGET), *BUDGET)


def test_the_last_count_of_a_plan_is_the_largest_that_fits():
    (_, four), (_, count) = (
        part.split("*") for part in pin("cell:5:1*4,rr:5:1/2", *BUDGET).split(",")
    )
    assert int(four) == 4
    both = report_loss("cell:5:1").self_composed(4)
    assert both.compose(report_loss(RR).self_composed(int(count))).delta(20.0) <= 1e-6
    assert both.compose(report_loss(RR).self_composed(int(count) + 1)).delta(20.0) > 1e-6
    with pytest.raises(ValueError, match="exceeds"):
        read_plan(f"cell:5:1*4,rr:5:1/2*{int(count) + 1}", *BUDGET)


@pytest.mark.parametrize("plan", ["adaptive", "sum", "none:5:inf"])
def test_what_protects_nothing_is_never_admitted(plan):
    with pytest.raises(ValueError, match="protects nothing"):
        planned(plan).room({}, "none:5:inf")


@pytest.mark.parametrize(
    ("plan", "epsilon", "delta", "message"),
    [
        ("rr:5:1/2,rr:5:1/4*3", F(20), F(1, 10**6), "only the last"),
        ("rr:5:1/2*3,rr:5:1/2", F(20), F(1, 10**6), "occurs twice"),
        ("rr:05:2", F(20), F(1, 10**6), "canonical"),
        ("everything", F(20), F(1, 10**6), "give adaptive, sum, or"),
        ("adaptive:1", F(20), F(1, 10**6), "above 1"),
        (RR, F(0), F(1, 10**6), "epsilon is above 0"),
        (RR, 20, F(1, 10**6), "exact number"),
        (RR, F(20), F(0), "delta from"),
    ],
)
def test_what_is_no_budget_or_plan_is_refused(plan, epsilon, delta, message):
    with pytest.raises(ValueError, match=message):
        pin(plan, epsilon, delta)


def test_a_plan_without_its_count_is_not_a_stored_one():
    with pytest.raises(ValueError, match="a count is missing"):
        read_plan(RR, *BUDGET)


# --- the Renyi filter -----------------------------------------------------------------------------


@pytest.mark.parametrize("id", ["rr:5:1/2", "cell:5:1:1/3", "laplace:5:2", "like:5:1"])
@pytest.mark.parametrize("order", [2, 3, 8])
def test_a_divergence_of_integer_order_is_that_of_fractions(id, order):
    loss = report_loss(id)
    for direction in (loss.forward, loss.backward):
        ((member, _),) = direction.members
        pair = member.pair
        total = sum((F(p, pair.total) * F(p, q) ** (order - 1) for p, q in pair.atoms), F(0))
        found = divergence(pair, F(order))
        assert total <= exponential(found * (order - 1))[0]
        assert total >= exponential((found - F(4, SCALE) - F(1, 10**9)) * (order - 1))[1]


def test_a_divergence_that_is_infinite_is_refused():
    with pytest.raises(ValueError, match="no divergence"):
        divergence(DominatingPair(((1, 0), (3, 4)), 4), F(2))


@pytest.mark.parametrize(("epsilon", "delta"), [(F(20), F(1, 10**6)), (F(1), F(1, 10))])
def test_a_capacity_is_turned_into_the_budget_and_no_more(epsilon, delta):
    order = F(21, 8)
    most = capacity(epsilon, delta, order)
    a, below = float(order), float(epsilon) - 1e-6
    found = [math.exp((a - 1) * (most / SCALE - e)) * (1 - 1 / a) ** a / (a - 1)
             for e in (float(epsilon), below)]  # fmt: skip
    assert found[0] <= float(delta) < found[1]


def test_the_filter_costs_a_little_against_a_plan():
    """At the default budget: 86 of 93 reports; a mixture is free in exchange."""
    assert pin("adaptive", *BUDGET) == "adaptive:21/8"
    free = planned("adaptive")
    assert 80 <= free.room({}, RR) < 93
    assert free.room({"rr:5:1/4": 100, "cell:5:1": 5}, RR) > 30


def test_a_hundred_times_weaker_reports_are_ten_thousand_times_as_many():
    """mu^2 is n epsilon^2 2/5 for small epsilons, also where n is 26 million."""
    hundredth, thousandth = (largest_count(f"rr:5:1/{n}", F(20), F(1, 10**6)) for n in (100, 1000))
    assert 255_000 < hundredth < 265_000
    assert thousandth == pytest.approx(100 * hundredth, rel=5e-3)

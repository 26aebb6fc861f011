"""The budget of a person: what fits, what is charged, what is stored."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.privacy.accounting.dominating_pair import DominatingPair
from stream_app.privacy.accounting.ledger import PersonLedger
from stream_app.privacy.accounting.plans import largest_count, read_plan
from stream_app.privacy.accounting.renyi import SCALE, capacity, divergence, spent_epsilon
from stream_app.privacy.accounting.whole_person import parse, report_loss, sum_cost
from stream_app.privacy.exact.gaussian_calibration import exponential

F = Fraction
RR = "rr:5:1/2"


def test_the_last_count_of_a_plan_is_the_largest_that_fits():
    ledger = PersonLedger.enrol(plan="cell:5:1*4,rr:5:1/2")
    (_, four), (_, count) = (part.split("*") for part in ledger.plan.split(","))
    assert int(four) == 4
    both = report_loss("cell:5:1").self_composed(4)
    assert both.compose(report_loss(RR).self_composed(int(count))).delta(20.0) <= 1e-6
    assert both.compose(report_loss(RR).self_composed(int(count) + 1)).delta(20.0) > 1e-6
    with pytest.raises(ValueError, match="exceeds"):
        replace(ledger, plan=f"cell:5:1*4,rr:5:1/2*{int(count) + 1}")


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from(["rr:5:1/2", "rr:5:1/2*60,cell:5:1*8", "adaptive", "sum"]),
    st.lists(
        st.tuples(st.sampled_from([RR, "cell:5:1"]), st.integers(0, 30), st.integers(0, 9)),
        max_size=12,
    ),
)
def test_no_sequence_of_charges_exceeds_the_plan_in_any_window(plan, charges):
    ledger = PersonLedger.enrol(plan=plan, window=5)
    plan_of = read_plan(ledger.plan, ledger.epsilon, ledger.delta, ledger.most_items)
    made: list[tuple[int, str, int]] = []
    for id, count, epoch in charges:
        room = ledger.room(id, epoch)
        assert ledger.admits(id, count, epoch) == (count <= room)
        if count > room:
            with pytest.raises(ValueError, match=f"has room for {room}"):
                ledger.charge(id, count, epoch)
            continue
        ledger = ledger.charge(id, count, epoch)
        assert ledger.room(id, epoch) == room - count
        # A clock that goes back opens nothing: the report counts in the newest epoch.
        made.append((max([epoch, *(e for e, _, n in made if n)]), id, count))
    for first in range(10):
        used: dict[str, int] = {}
        for epoch, id, count in made:
            if first <= epoch < first + 5:
                used[id] = used.get(id, 0) + count
        assert plan_of.spent(used) <= 20.0
        if "*" in ledger.plan:
            planned = dict(part.split("*") for part in ledger.plan.split(","))
            assert all(count <= int(planned.get(id, 0)) for id, count in used.items())


def test_a_window_forgets_and_a_life_does_not():
    ledger = PersonLedger.enrol(plan=RR).charge(RR, 90, epoch=1000)
    assert [ledger.room(RR, epoch) for epoch in (0, 1000, 1364, 1365)] == [3, 3, 3, 93]
    assert len(ledger.charge(RR, 3, 1001).charge(RR, 1, 1400).counts) == 1
    life = PersonLedger.enrol(plan=RR, window=None).charge(RR, 90, epoch=1000)
    assert life.counts == ((0, RR, 90),)
    assert life.room(RR, 10**6) == 3


def test_the_state_is_integers_and_comes_back():
    ledger = PersonLedger.enrol(F(8), F(1, 10**7), "adaptive", most_items=50)
    ledger = ledger.charge(RR, 7, 100).charge("cell:5:1/2", 3, 101).charge(RR, 2, 101)
    assert ledger.counts == ((100, RR, 7), (101, "cell:5:1/2", 3), (101, RR, 2))
    again = PersonLedger(F(8), F(1, 10**7), ledger.plan, 365, 50, ledger.counts)
    assert again == ledger
    assert again.room(RR, 101) == ledger.room(RR, 101)


def test_a_figure_of_what_is_spent_never_exceeds_the_budget():
    for plan in (RR, "adaptive", "sum"):
        ledger = PersonLedger.enrol(plan=plan)
        assert ledger.spent() == 0.0
        half = ledger.charge(RR, ledger.room(RR) // 2)
        full = ledger.charge(RR, ledger.room(RR))
        assert 0 < half.spent() < full.spent() <= 20.0
        assert full.spent() > 19.5


def test_a_mechanism_outside_of_a_plan_has_no_room():
    ledger = PersonLedger.enrol(plan=RR)
    assert ledger.room("rr:5:1/4") == 0
    assert not ledger.admits("rr:5:1/4")
    assert ledger.admits("rr:5:1/4", 0)
    assert not ledger.admits(RR, -1)


@pytest.mark.parametrize("plan", ["adaptive", "sum", "none:5:inf"])
def test_what_protects_nothing_is_never_admitted(plan):
    with pytest.raises(ValueError, match="protects nothing"):
        PersonLedger.enrol(plan=plan).room("none:5:inf")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"plan": "rr:5:1/2,rr:5:1/4*3"}, "only the last"),
        ({"plan": "rr:5:1/2*3,rr:5:1/2"}, "occurs twice"),
        ({"plan": "rr:05:2"}, "canonical"),
        ({"plan": "everything"}, "give adaptive, sum, or"),
        ({"plan": "adaptive:1"}, "above 1"),
        ({"epsilon": F(0)}, "epsilon is above 0"),
        ({"epsilon": 20}, "exact number"),
        ({"delta": F(0)}, "delta from"),
        ({"window": 0}, "at least 1 epoch"),
    ],
)
def test_what_is_no_budget_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        PersonLedger.enrol(**arguments)


def test_a_plan_without_its_count_is_not_a_stored_one():
    with pytest.raises(ValueError, match="a count is missing"):
        PersonLedger(F(20), F(1, 10**6), RR)


# --- profiles -------------------------------------------------------------------------------------


def test_a_filter_costs_a_person_what_its_bits_can_carry():
    """At most min(c K, L) bits at epsilon / K, so at most min(c epsilon, L epsilon / K)."""
    for items in (1, 100, 1000):
        exact = report_loss("blip:500:2:1", most_items=items)
        assert exact.epsilon(0.0) == pytest.approx(min(items, 250), rel=1e-9)
        assert exact.epsilon(1e-6) <= min(items, 250)
        assert sum_cost("blip:500:2:1", items) == (F(min(items, 250)), F(0))
    assert report_loss("blip:500:2:1", "rating").epsilon(0.0) == pytest.approx(1.0, rel=1e-9)
    assert report_loss("blip:500:2:0").epsilon(1e-9) == 0.0


def test_a_projection_costs_a_person_the_square_of_the_items():
    for items in (1, 3):
        loss = report_loss("jlt:200:1/2:1/1000000", most_items=items).self_composed(2)
        ((projection, count),) = loss.forward.members
        mu = F(2 * 200 * items**2) / parse("jlt:200:1/2:1/1000000").variance
        assert projection.square(count) == mu
    assert sum_cost("jlt:200:1/2:1/1000000", 3)[0] == F(3, 2)


def test_a_plan_of_ratings_and_profiles_is_one_budget():
    ledger = PersonLedger.enrol(plan="jlt:200:1/2:1/1000000*4,rr:5:1/2", most_items=2)
    alone = largest_count(RR, F(20), F(1, 10**6))
    assert 0 < ledger.room(RR) < alone == 93
    free = PersonLedger.enrol(most_items=2)
    assert free.charge("jlt:200:1/2:1/1000000", 4).room(RR) < free.room(RR)


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
    assert spent_epsilon(most, delta, order) <= float(epsilon)
    assert spent_epsilon(most + SCALE // 10**6, delta, order) > float(epsilon)


def test_the_filter_costs_a_little_against_a_plan():
    """At the default budget: 86 of 93 reports; a mixture is free in exchange."""
    free = PersonLedger.enrol()
    assert free.plan == "adaptive:21/8"
    assert 80 <= free.room(RR) < 93
    mixed = free.charge("rr:5:1/4", 100).charge("cell:5:1", 5)
    assert mixed.room(RR) > 30


def test_a_hundred_times_weaker_reports_are_ten_thousand_times_as_many():
    """mu^2 is n epsilon^2 2/5 for small epsilons, also where n is 26 million."""
    hundredth, thousandth = (largest_count(f"rr:5:1/{n}", F(20), F(1, 10**6)) for n in (100, 1000))
    assert 255_000 < hundredth < 265_000
    assert thousandth == pytest.approx(100 * hundredth, rel=5e-3)


def test_an_epoch_that_reports_nothing_forgets_nothing():
    ledger = PersonLedger.enrol(plan=RR, window=5).charge(RR, 93, 0)
    assert ledger.charge(RR, 0, 5).room(RR, 0) == 0


@pytest.mark.parametrize(
    "counts", [((1, RR, 1), (0, RR, 1)), ((0, RR, 1), (0, RR, 1)), ((0, RR, 0),)]
)
def test_a_state_that_no_charges_lead_to_is_refused(counts):
    with pytest.raises(ValueError, match="once, sorted"):
        PersonLedger(F(20), F(1, 10**6), f"{RR}*93", counts=counts)


def test_an_admission_does_not_read_the_history():
    """Ten thousand releases in one year or in one day: as many entries are looked at."""
    ledger = PersonLedger.enrol(plan="rr:5:1/100")
    for epoch in range(365):
        ledger = ledger.charge("rr:5:1/100", 27, 20_000 + epoch)
    looked_at = _Counted(ledger.counts)
    object.__setattr__(ledger, "counts", looked_at)
    assert ledger.admits("rr:5:1/100", 1, 20_364)
    assert looked_at.reads <= 3


class _Counted(tuple):
    """A tuple that counts the reads of its entries."""

    reads = 0

    def __getitem__(self, at):
        found = super().__getitem__(at)
        self.reads += len(found) if isinstance(at, slice) else 1
        return found

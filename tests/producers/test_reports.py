"""What a person's budget holds over time: windows, plans, and what a check reads."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from producers.journal.account_book import BudgetState
from producers.journal.budget import debit
from producers.person.account import Account
from producers.person.enrolment import PersonBudget
from producers.person.reports import Used, room
from producers.person.spending_so_far import ALL, spending
from stream_app.privacy import registry
from stream_app.privacy.accounting.budget_plans import ExactPlan

RR, CELL = "rr:5:1/2", "cell:5:1"
DEVICE = b"a" * 16


class Person:
    """An account as the journal keeps it, without the file."""

    def __init__(self, budget: PersonBudget) -> None:
        self.budget, self.account, self.state = budget, Account(), BudgetState()
        self.state.accounts[DEVICE] = self.account

    def used(self, epoch: int = 0) -> dict[str, Used]:
        return self.state.used(DEVICE, epoch, self.budget)

    def room(self, id: str, epoch: int = 0) -> int:
        found = room(self.budget, self.used(epoch), registry.parse(id))
        assert found is not None
        return found

    def charge(self, id: str, count: int, epoch: int = 0) -> None:
        assert count <= self.room(id, epoch)
        cost = debit(registry.parse(id), count)
        self.state.epoch = max(self.state.epoch, epoch)
        key = self.state.epoch, cost.adjacency, "rating", id
        self.account.spend(key, cost.nano, cost.atto, cost.reports)

    def spent(self, epoch: int = 0) -> float:
        return spending(self.used(epoch), self.budget)[ALL].zeros


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from([RR, "rr:5:1/2*60,cell:5:1*8", "adaptive", "sum"]),
    st.lists(
        st.tuples(st.sampled_from([RR, CELL]), st.integers(0, 30), st.integers(0, 9)), max_size=12
    ),
)
def test_no_sequence_of_charges_exceeds_the_plan_in_any_window(
    plan: str, charges: list[tuple[str, int, int]]
) -> None:
    person = Person(PersonBudget(window=5, plan=plan))
    made: list[tuple[int, str, int]] = []
    for id, count, epoch in charges:
        before = person.room(id, epoch)
        if not 0 < count <= before:
            continue
        person.charge(id, count, epoch)
        assert person.room(id, epoch) == before - count
        # A clock that goes back opens nothing: the report counts in the newest epoch.
        made.append((max([epoch, *(e for e, _, _ in made)]), id, count))
    for first in range(10):
        counts: dict[str, int] = {}
        for epoch, id, count in made:
            if first <= epoch < first + 5:
                counts[id] = counts.get(id, 0) + count
        if plan == "sum":
            assert sum(n * registry.parse(id).epsilon for id, n in counts.items()) <= 20
            continue
        # The curve of the counts that occurred is below that of the plan or the filter.
        held = ExactPlan(tuple(counts.items()), Fraction(1, 10**6))
        assert held.spent(counts) <= 20.0
        if "*" in plan:
            planned = dict(part.split("*") for part in plan.split(","))
            assert all(count <= int(planned[id]) for id, count in counts.items())


def test_a_window_forgets_and_a_life_does_not() -> None:
    year, life = (Person(PersonBudget(window=window, plan=RR)) for window in (365, None))
    for person in (year, life):
        person.charge(RR, 90, 1000)
    assert [year.room(RR, epoch) for epoch in (0, 1000, 1364, 1365)] == [3, 3, 3, 93]
    assert life.room(RR, 10**6) == 3


@pytest.mark.parametrize("plan", [RR, "adaptive", "sum"])
def test_what_is_spent_is_one_number_under_every_plan(plan: str) -> None:
    person = Person(PersonBudget(plan=plan))
    assert person.spent() == 0
    person.charge(RR, 40)
    assert person.spent() == pytest.approx(13.17, abs=0.01)  # composed exactly 11.52
    person.charge(RR, person.room(RR))
    assert person.room(RR) == 0


def test_a_mechanism_outside_of_a_plan_has_no_room() -> None:
    for plan in (RR, f"{RR}*3"):
        assert Person(PersonBudget(plan=plan)).room("rr:5:1/4") == 0
    for plan in (RR, "adaptive", "sum"):
        assert Person(PersonBudget(plan=plan)).room("none:5:inf") == 0


@pytest.mark.parametrize("plan", ["rr:5:1/100", "adaptive"])
def test_an_admission_does_not_read_the_history(plan: str) -> None:
    """Ten thousand releases in one year: the counts of the window are kept as sums."""
    person = Person(PersonBudget(plan=plan))
    for epoch in range(365):
        person.charge("rr:5:1/100", 27, 20_000 + epoch)
    person.account.spends, _Counted.reads = _Counted(person.account.spends), 0
    assert person.room("rr:5:1/100", 20_364) > 0
    assert _Counted.reads == 0
    person.room("rr:5:1/100", 20_365)  # one day leaves the window
    assert _Counted.reads == 1
    assert person.account.used(19_000)["rr:5:1/100"].reports == 27 * 365
    assert _Counted.reads > 365


class _Counted(dict[Any, Any]):
    """A dictionary that counts the reads of its entries."""

    reads = 0

    def __getitem__(self, key: Any) -> Any:
        _Counted.reads += 1
        return super().__getitem__(key)

    def items(self) -> Iterator[Any]:  # type: ignore[override]
        for key in self:
            yield key, self[key]

"""What a release costs: exact, rounded against the spender, never of two kinds together."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.journal.budget import ATTO, NANO, Limits, debit, fitting
from stream_app.privacy import registry
from stream_app.privacy.adjacency import Adjacency


@dataclass(frozen=True)
class Claim:
    epsilon: Fraction | None
    delta: Fraction = Fraction(0)
    adjacency: Adjacency = Adjacency.VALUE
    id: str = "claim"


EPSILONS = st.fractions(min_value=0, max_value=64, max_denominator=10**6)


@given(EPSILONS, st.integers(1, 10**6), EPSILONS.filter(lambda e: e > 0))
def test_what_fits_in_integers_fits_in_truth(
    epsilon: Fraction, reports: int, budget: Fraction
) -> None:
    cost, limit = debit(Claim(epsilon), reports), Limits(budget).nano
    assert limit is not None
    assert Fraction(cost.nano, NANO) >= reports * epsilon
    assert Fraction(limit, NANO) <= budget
    assert Fraction(cost.nano, NANO) - reports * epsilon < Fraction(1, NANO)
    room = fitting(Claim(epsilon), limit, None)
    assert (room is None) == (epsilon == 0)
    if room is not None:
        assert (cost.nano <= limit) == (reports <= room)
    if cost.nano <= limit:
        assert reports * epsilon <= budget


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
                              Fraction(10**400), Fraction(10) ** 5000)]
    + [{"epsilon": Fraction(1), "window": w} for w in (0, -1, 2.0, True, 2**32, "3")]
    + [{"window": 3}]
    + [{"reports": r} for r in (0, -1, 1.5, True)]
    + [{"delta": d} for d in (0.5, Fraction(-1), Fraction(2), "1")],
    ids=lambda wrong: str(wrong)[:40] if len(wrong) > 1 else next(iter(wrong)),
)  # fmt: skip
def test_a_limit_that_is_none_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"budget|window|reports|delta") as caught:
        Limits(**wrong)
    assert len(str(caught.value)) < 160


def test_the_smaller_of_epsilon_and_delta_decides_what_fits() -> None:
    both = Claim(Fraction(2), Fraction(1, 10**6))
    assert fitting(both, 7 * NANO, None) == 3
    assert fitting(both, 7 * NANO, 2 * ATTO // 10**6) == 2
    assert fitting(both, None, -1) == 0
    assert fitting(both, None, None) is None
    assert (fitting(Claim(None), None, ATTO), fitting(Claim(None), NANO, None)) == (None, 0)


def test_a_limit_says_what_it_is() -> None:
    assert str(Limits()) == "no limit"
    assert str(Limits(Fraction(5, 2))) == "2.5 in all"
    assert str(Limits(Fraction(20), 7)) == "20 in any 7 epochs"

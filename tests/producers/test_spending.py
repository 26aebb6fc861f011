"""Plans that spend a budget: what the accountant admits, what a report carries, what to expect."""

from __future__ import annotations

from fractions import Fraction

import pytest

from producers.journal import PersonBudget
from producers.person.plans import checked_plan
from producers.person.spending import (
    GRID,
    Expected,
    best_plan,
    best_plan_by_sums,
    expected_error,
    reports_by_sums,
)
from stream_app.privacy.accounting.budget_plans import fits
from stream_app.privacy.ratings.information_fraction import information_fraction

DELTA = Fraction(1, 10**6)


def budget(epsilon: str, **terms: object) -> PersonBudget:
    return PersonBudget(Fraction(epsilon), **terms)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("epsilon", "share"),
    [("1/2", 0.040), ("1", 0.143), ("2", 0.412), ("3", 0.654), ("4", 0.820), ("6", 0.962)],
)
def test_a_report_carries_the_share_of_a_rating_that_was_measured(
    epsilon: str, share: float
) -> None:
    assert information_fraction(f"partition:5:{epsilon}") == pytest.approx(share, abs=0.002)


def test_a_report_without_noise_carries_the_whole_rating() -> None:
    assert information_fraction("none:5:inf") == pytest.approx(1)
    with pytest.raises(ValueError, match="not the levels"):
        information_fraction("cell:5:2")


@pytest.mark.parametrize("epsilon", ["1/2", "5", "20", "80"])
@pytest.mark.parametrize("ratings", [3, 165, 5000])
def test_the_best_plan_is_the_best_of_all_that_the_accountant_admits(
    epsilon: str, ratings: int
) -> None:
    terms = budget(epsilon)
    found = best_plan(terms, Expected(ratings))
    assert checked_plan(found.plan, terms) == found.plan
    assert found.reports <= ratings
    for each in GRID:
        id = f"partition:5:{each}"
        more = int(found.information / information_fraction(id) + 1e-9) + 1
        assert more > ratings or not fits(((id, more),), Fraction(epsilon), DELTA)


def test_a_larger_budget_and_more_ratings_never_carry_less() -> None:
    for ratings in (1, 20, 165):
        carried = [
            best_plan(budget(epsilon), Expected(ratings)).information
            for epsilon in ("1/4", "1", "2", "5", "10", "20", "40", "80", "160", "320")
        ]
        assert carried == sorted(carried)
    carried = [best_plan(budget("20"), Expected(n)).information for n in (1, 2, 4, 8, 16, 165)]
    assert carried == sorted(carried)


def test_exact_composition_never_admits_less_than_sums() -> None:
    for epsilon in ("1", "20", "320"):
        exact, sums = (
            find(budget(epsilon), Expected(1000)) for find in (best_plan, best_plan_by_sums)
        )
        assert exact.information >= sums.information
    large = best_plan(budget("320"), Expected(10_000))
    assert large.reports > reports_by_sums(budget("320"), large)
    assert best_plan_by_sums(budget("320"), Expected(10_000)).information < large.information


def test_a_longer_horizon_has_a_budget_in_each_window() -> None:
    year, years = Expected(100), Expected(300, horizon=3 * 365)
    one, three = best_plan(budget("20"), year), best_plan(budget("20"), years)
    assert (three.plan, three.windows) == (one.plan, 3)
    assert best_plan(budget("20"), Expected(3, horizon=3 * 365)).reports == 1
    assert best_plan(budget("20", window=None), years).windows == 1


@pytest.mark.parametrize(
    ("terms", "ratings", "message"),
    [
        (budget("1/5"), 10, r"^budget 1/5: holds no report of epsilon 1/4.*give 1/4 or more$"),
        (budget("20", delta=Fraction(0)), 10, r"^delta 0: give 1e-15 or more"),
        (budget("20"), 0, r"^ratings 0: give a whole number from 1 to 1000000$"),
        (budget("20"), 10**7, r"^ratings 10000000: give a whole number"),
    ],
)
def test_what_cannot_be_planned_is_refused(terms: PersonBudget, ratings: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        best_plan(terms, Expected(ratings))


def test_the_expected_error_falls_with_information_and_is_unknown_outside_the_table() -> None:
    points = [expected_error(1.1 + step / 10) for step in range(470)]
    known = [point for point in points if point is not None]
    assert len(known) == len(points)
    for column in zip(*known, strict=True):
        assert list(column) == sorted(column, reverse=True)
    assert all(folded < alone for alone, folded in known)
    assert expected_error(4.106) == pytest.approx((1.0024, 0.9577))
    assert expected_error(0.5) is None
    assert expected_error(100.0) is None

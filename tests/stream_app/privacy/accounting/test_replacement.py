"""A whole record replaced by any other: the bound against every pair of records, in fractions."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest

from stream_app.privacy import registry
from stream_app.privacy.accounting.budget_plans import largest_count
from stream_app.privacy.accounting.whole_person import Neighbours, report_loss
from stream_app.privacy.exact.integer_tables import TOTAL, Table

F = Fraction
REPORTS = 2
EPSILONS = ("0", "1/4", "3/4", "5/4")
THINNED = ("cell:2:1:1/4", "ternary:2:1:1/4", "laplace:2:1:1/4")
WHOLE = ("cell:2:1", "ternary:2:1", "like:2:1")
LAPLACE = "laplace:3:1"


def table_of(id: str) -> Table:
    table = registry.parse(id).table()
    assert table is not None
    return table


def worst_delta(id: str, epsilon: str, *, replaced: bool) -> Fraction:
    """The largest hockey-stick divergence of two records of `REPORTS` cells, from the counts.

    e^epsilon is rounded down, so that the result is not below the truth. Not `replaced`: only
    records against the one without any rating, in both orders.
    """
    counts = table_of(id).counts
    records = list(itertools.product(range(len(counts)), repeat=REPORTS))
    laws = {
        record: [math.prod(each) for each in itertools.product(*(counts[x] for x in record))]
        for record in records
    }
    empty = (len(counts) - 1,) * REPORTS
    ratio = F(math.exp(F(epsilon))) * (1 - F(1, 2**50))
    return max(
        sum(max(F(0), p - ratio * q) for p, q in zip(laws[a], laws[b], strict=True))
        for a, b in itertools.permutations(records, 2)
        if replaced or empty in (a, b)
    ) / (TOTAL**REPORTS)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("id", [*THINNED, *WHOLE, LAPLACE])
def test_the_bound_holds_for_every_pair_of_records_and_is_tight(id: str, epsilon: str) -> None:
    """All inputs at every cell, all outputs; the bound is above by its rounding alone."""
    for neighbours, replaced in (("replaced", True), ("person", False)):
        truth = worst_delta(id, epsilon, replaced=replaced)
        loss = report_loss(id, neighbours).self_composed(REPORTS)  # type: ignore[arg-type]
        bound = loss.delta(float(F(epsilon)))
        assert F(bound) >= truth * (1 - F(1, 10**12))
        assert bound <= float(truth) * (1 + 1e-3) + 1e-9


@pytest.mark.parametrize("id", [*THINNED, LAPLACE])
def test_thinning_makes_a_replacement_cost_more_than_a_removal(id: str) -> None:
    """So the figure of a person, everything added or removed, is no bound of a replacement."""
    both = [worst_delta(id, "1/4", replaced=replaced) for replaced in (True, False)]
    assert both[0] > both[1]
    count = largest_count(id, F(20), F(1, 10**6))
    assert cost(id, "person", count) <= 20 < cost(id, "replaced", count)


@pytest.mark.parametrize("id", WHOLE)
def test_without_thinning_a_replacement_costs_what_a_removal_does(id: str) -> None:
    count = largest_count(id, F(20), F(1, 10**6))
    assert cost(id, "replaced", count) == pytest.approx(cost(id, "person", count), rel=1e-9)


@pytest.mark.parametrize("id", [*THINNED, *WHOLE, LAPLACE])
def test_at_delta_0_either_costs_the_sum_of_the_epsilons_at_most(id: str) -> None:
    for neighbours in ("person", "replaced"):
        found = report_loss(id, neighbours).self_composed(7).epsilon(0.0)  # type: ignore[arg-type]
        assert found <= 7 * (1 + 1e-9)


def cost(id: str, neighbours: Neighbours, count: int) -> float:
    return report_loss(id, neighbours).self_composed(count).epsilon(1e-6)

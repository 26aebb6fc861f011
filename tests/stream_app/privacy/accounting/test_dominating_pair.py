"""One pair of rows has the largest hockey-stick curve of all pairs, exactly."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_app.privacy import registry
from stream_app.privacy.accounting.dominating_pair import (
    DominatingPair,
    Rows,
    log_ratio,
    presence_pairs,
    value_pairs,
)
from stream_app.privacy.exact.integer_tables import TOTAL, exp_bounds
from stream_app.privacy.privacy_map import Adjacency
from tests.stream_app.privacy.mechanisms import EVERY_PROTECTING, name

SMALL = 24


@st.composite
def rows(draw: st.DrawFn, outputs: int = 4, total: int = SMALL) -> tuple[int, ...]:
    cuts = sorted(draw(st.lists(st.integers(0, total), min_size=outputs - 1, max_size=outputs - 1)))
    return tuple(b - a for a, b in zip([0, *cuts], [*cuts, total], strict=True))


def hockey_stick(pair: Rows, ratio: Fraction, total: int) -> Fraction:
    parts = [max(Fraction(0), p - ratio * q) for p, q in zip(*pair, strict=True)]
    return sum(parts, Fraction(0)) / total


@given(
    st.lists(st.tuples(rows(), rows()), min_size=1, max_size=4),
    st.fractions(0, 30, max_denominator=12),
)
def test_its_curve_is_the_largest_of_all_at_every_ratio(pairs, ratio):
    cover = DominatingPair.covering(pairs, SMALL)
    assert cover.delta(ratio) == max(hockey_stick(pair, ratio, SMALL) for pair in pairs)
    back = [(q, p) for p, q in pairs]
    assert cover.reversed().delta(ratio) == max(hockey_stick(pair, ratio, SMALL) for pair in back)


@given(st.lists(st.tuples(rows(), rows()), min_size=1, max_size=4))
def test_its_outputs_are_ordered_and_sum_to_both_laws(pairs):
    atoms = DominatingPair.covering(pairs, SMALL).atoms
    assert [sum(side) for side in zip(*atoms, strict=True)] == [SMALL, SMALL]
    for (p, q), (p2, q2) in pairwise(atoms):
        assert p * q2 > p2 * q


@pytest.mark.parametrize("mechanism", EVERY_PROTECTING, ids=name)
def test_a_pair_of_each_kind_stands_for_all(mechanism):
    for mask in {1, *mechanism.masks} if mechanism.masks else {0}:
        table = mechanism.table(mask)
        assert table is not None
        inputs = table.counts
        every = [(a, b) for a, b in permutations(inputs, 2)]
        assert DominatingPair.covering(value_pairs(table)) == DominatingPair.covering(every)
        if mechanism.adjacency is Adjacency.CELL:
            missing = [(row, inputs[-1]) for row in inputs[:-1]]
            cover = DominatingPair.covering(presence_pairs(table))
            assert cover == DominatingPair.covering(missing)
        if mask > 40:
            break


def test_randomized_response_has_one_kind_of_pair_and_three_losses():
    table = registry.parse("rr:256:1").table()
    pairs = value_pairs(table)
    assert len(pairs) == 1
    atoms = DominatingPair.covering(pairs).atoms
    assert len(atoms) == 3
    assert exp_bounds(Fraction(1))[0] >= Fraction(*atoms[0]) == 1 / Fraction(*atoms[2])


def test_a_table_of_which_one_count_differs_is_not_taken_for_symmetric():
    keep, other = TOTAL // 2, TOTAL // 4
    counts = ((keep, other, other), (other, keep, other), (other, other - 1, keep + 1))
    table = registry.parse("rr:3:1").table().__class__(counts)
    assert len(value_pairs(table)) > 1
    every = DominatingPair.covering(list(permutations(counts, 2)))
    assert DominatingPair.covering(value_pairs(table)) == every


def test_an_output_of_one_input_only_is_the_first():
    cover = DominatingPair.covering([((3, 1, 0), (0, 2, 2))], 4)
    assert cover.atoms == ((3, 0), (1, 2), (0, 2))
    assert cover.delta(Fraction(10**9)) == Fraction(3, 4)


def test_sides_that_do_not_sum_to_one_are_refused():
    with pytest.raises(ValueError, match="each side sums to 4"):
        DominatingPair(((3, 1), (2, 3)), 4)


@pytest.mark.parametrize(("p", "q"), [(2**64, 1), (2**63 + 1, 2**63), (7, 7), (3, 2**60)])
def test_logarithms_of_ratios_are_accurate_also_near_one(p, q):
    found = Fraction(log_ratio(p, q))
    low, high = sorted((found * (1 - Fraction(1, 2**50)), found * (1 + Fraction(1, 2**50))))
    if found >= 0:
        assert exp_bounds(low)[0] <= Fraction(p, q) <= exp_bounds(high)[1]
    else:
        assert exp_bounds(-high)[0] <= Fraction(q, p) <= exp_bounds(-low)[1]

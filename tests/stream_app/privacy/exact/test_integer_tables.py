"""Channels as integers: bounds hold, rounding favours privacy, sampling is the obvious one."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_app.privacy.exact.certificates import certify
from stream_app.privacy.exact.integer_tables import TOTAL, Table, compile_table, exp_bounds
from stream_app.privacy.privacy_map import Adjacency
from stream_app.privacy.randomness import SeededSource
from tests.naive.tables import sample

weights = st.lists(st.integers(1, 2**70), min_size=2, max_size=12)


@pytest.mark.parametrize(
    "text", ["0", "1/1000000", "1/10", "1/2", "1", "2", "7/3", "8", "44", "64"]
)
def test_the_bounds_of_the_exponential_hold_it_and_are_close(text: str) -> None:
    x = Fraction(text)
    low, high = exp_bounds(x)
    assert low <= high
    assert (high - low) / low < Fraction(1, 2**200)
    assert float(low) == pytest.approx(math.exp(x), rel=4e-16)
    # An independent bracket: (1 + x/n)^n <= e^x <= 1 / (1 - x/n)^n.
    n = 2**10
    assert (1 + x / n) ** n <= high
    assert low <= 1 / (1 - x / n) ** n


def test_the_exponential_of_a_sum_lies_in_the_product_of_the_bounds() -> None:
    a, b = Fraction(7, 5), Fraction(31, 9)
    (low_a, high_a), (low_b, high_b) = exp_bounds(a), exp_bounds(b)
    low, high = exp_bounds(a + b)
    assert low_a * low_b <= high
    assert low <= high_a * high_b


def test_a_negative_exponent_is_refused() -> None:
    with pytest.raises(ValueError, match="-1"):
        exp_bounds(Fraction(-1))


@given(weights)
def test_the_counts_of_an_input_sum_to_the_whole_and_only_the_largest_gives_way(
    row: list[int],
) -> None:
    (counts,) = compile_table([row]).counts
    assert sum(counts) == TOTAL
    exact = [Fraction(weight * TOTAL, sum(row)) for weight in row]
    largest = row.index(max(row))
    for z, (count, share) in enumerate(zip(counts, exact, strict=True)):
        if z == largest:
            assert share - len(row) < count <= share
        else:
            assert share <= count < share + 1


@given(st.lists(weights, min_size=2, max_size=6))
def test_rounding_draws_the_inputs_of_an_output_together(rows: list[list[int]]) -> None:
    outputs = min(map(len, rows))
    rows = [row[:outputs] for row in rows]
    exact = [[Fraction(weight * TOTAL, sum(row)) for weight in row] for row in rows]
    counts = compile_table(rows).counts
    for z in range(outputs):
        shares = [row[z] for row in exact]
        # An input's largest count takes the remainder, so the rule does not apply to it.
        kept = [v for v, row in enumerate(rows) if z != row.index(max(row))]
        for v in kept:
            assert abs(counts[v][z] - shares[v]) < 1
            if shares[v] == max(shares) > min(shares) + 1:
                assert counts[v][z] <= shares[v]
            if shares[v] == min(shares):
                assert counts[v][z] >= shares[v]


def test_a_draw_takes_one_word_for_each_input_in_order() -> None:
    table = compile_table([[3, 1, 1], [1, 1, 3]])
    inputs = np.resize(np.array([0, 1, 1], np.uint8), 20_001)
    words = SeededSource(9).words(len(inputs))
    source = SeededSource(9)
    np.testing.assert_array_equal(table.draw(inputs, source), table.sample(inputs, words))
    np.testing.assert_array_equal(source.words(3), SeededSource(9).words(20_004)[-3:])


def test_rational_weights_compile_like_integers_in_the_same_proportion() -> None:
    halves = [[Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)]]
    assert compile_table(halves).counts == compile_table([[3, 2, 1]]).counts


@given(st.lists(weights, min_size=1, max_size=4), st.data())
def test_sampling_is_the_obvious_walk_along_the_counts(
    rows: list[list[int]], data: st.DataObject
) -> None:
    outputs = min(map(len, rows))
    table = compile_table([row[:outputs] for row in rows])
    edges = [
        end + step
        for row in table.counts
        for end in np.cumsum(row, dtype=object)
        for step in (-1, 0)
    ]
    words = st.sampled_from([0, TOTAL - 1, *(edge % TOTAL for edge in edges)]) | st.integers(
        0, TOTAL - 1
    )
    pairs = data.draw(st.lists(st.tuples(st.integers(0, len(rows) - 1), words), max_size=40))
    inputs = np.array([v for v, _ in pairs], np.uint8)
    drawn = np.array([w for _, w in pairs], np.uint64)
    np.testing.assert_array_equal(table.sample(inputs, drawn), sample(table.counts, inputs, drawn))


def test_sampling_crosses_its_blocks_without_a_seam() -> None:
    table = compile_table([[3, 1, 1], [1, 1, 3]])
    rng = np.random.default_rng(5)
    inputs = rng.integers(0, 2, 20_001).astype(np.uint8)
    words = rng.integers(0, TOTAL, 20_001, dtype=np.uint64)
    np.testing.assert_array_equal(table.sample(inputs, words), sample(table.counts, inputs, words))


def test_a_table_that_reveals_too_much_gets_no_certificate() -> None:
    epsilon = Fraction(1)
    limit = exp_bounds(epsilon)[0]
    q = math.floor(TOTAL / (limit + 1))
    for too_much, allowed in ((0, True), (2, False)):
        p = math.floor(q * limit) + too_much
        table = Table(((p, q, TOTAL - p - q), (q, p, TOTAL - p - q)))
        if allowed:
            assert certify(table, "x", epsilon, Adjacency.VALUE).worst_ratio == Fraction(p, q)
        else:
            with pytest.raises(ValueError, match="distinguishes two inputs"):
                certify(table, "x", epsilon, Adjacency.VALUE)


def test_a_single_bad_cell_among_many_is_found() -> None:
    share = TOTAL // 256
    fair = (share,) * 256
    bad = (share + share // 2, *fair[1:17], share - share // 2, *fair[18:])
    certify(Table((fair,) * 256), "x", Fraction(1, 2), Adjacency.VALUE)
    with pytest.raises(ValueError, match="distinguishes two inputs"):
        certify(Table((fair,) * 255 + (bad,)), "x", Fraction(1, 2), Adjacency.VALUE)


@pytest.mark.parametrize(
    "counts",
    [
        ((TOTAL,),),
        ((TOTAL, 0),),
        ((1, TOTAL),),
        ((TOTAL // 2, TOTAL // 2), (TOTAL // 4, TOTAL // 4, TOTAL // 2)),
    ],
)
def test_counts_that_are_no_channel_are_refused(counts: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(ValueError, match="table"):
        Table(counts)


@pytest.mark.parametrize("row", [[], [0, 1], [1, -1]])
def test_weights_that_are_no_channel_are_refused(row: list[int]) -> None:
    with pytest.raises(ValueError, match="weight above 0"):
        compile_table([row])

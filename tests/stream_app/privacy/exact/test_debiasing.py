"""Estimates solved from counts: exact, of least variance, and none where there is none."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stream_app.privacy.exact.debiasing import solve, spread, unbiased
from stream_app.privacy.exact.integer_tables import TOTAL, compile_table

numbers = st.integers(-(10**6), 10**6)


@given(st.integers(1, 5).flatmap(lambda n: st.lists(
    st.lists(numbers, min_size=n + 1, max_size=n + 1), min_size=n, max_size=n)))  # fmt: skip
def test_a_solution_solves_every_equation_exactly(rows: list[list[int]]) -> None:
    matrix, goal = [row[:-1] for row in rows], [Fraction(row[-1], 7) for row in rows]
    x = solve(matrix, goal)
    if x is None:
        assert abs(np.linalg.det(np.array(matrix, np.float64) / 10**6)) < 1e-9
        return
    for row, wanted in zip(matrix, goal, strict=True):
        assert sum(a * b for a, b in zip(row, x, strict=True)) == wanted


def test_an_equation_that_begins_with_nothing_is_put_off() -> None:
    matrix, goal = [[0, 2, 1], [0, 1, 1], [3, 0, 0]], [Fraction(5), Fraction(3), Fraction(3)]
    assert solve(matrix, goal) == [1, 2, 1]
    assert solve([[0, 1], [0, 2]], goal[:2]) is None


@given(st.data())
def test_the_mean_of_an_estimate_is_its_target_for_every_input(data: st.DataObject) -> None:
    inputs = data.draw(st.integers(2, 4))
    outputs = data.draw(st.integers(inputs, 6))
    row = st.lists(st.integers(1, 1000), min_size=outputs, max_size=outputs)
    counts = compile_table(data.draw(st.lists(row, min_size=inputs, max_size=inputs))).counts
    targets = [Fraction(data.draw(numbers), 3) for _ in range(inputs)]
    estimate = unbiased(counts, targets)
    if estimate is None:  # two inputs have the same channel
        assert np.linalg.matrix_rank(np.array(counts, np.float64) / TOTAL, tol=1e-9) < inputs
        return
    for at, wanted in zip(counts, targets, strict=True):
        assert sum(c * g for c, g in zip(at, estimate, strict=True)) == TOTAL * wanted


def test_of_all_unbiased_estimates_the_one_that_varies_least_in_the_mean_is_taken() -> None:
    counts = compile_table([[5, 3, 1, 1], [1, 3, 4, 2]]).counts
    targets = [Fraction(0), Fraction(1)]
    estimate = unbiased(counts, targets)
    assert estimate is not None
    channel = np.array(counts, np.float64) / TOTAL
    found = spread(counts, estimate).sum()
    _, _, free = np.linalg.svd(channel)
    for direction in free[2:]:
        for step in (-0.1, 0.1):
            other = np.array(estimate, np.float64) + step * direction
            varied = channel @ other**2 - (channel @ other) ** 2
            np.testing.assert_allclose(channel @ other, [0, 1], atol=1e-12)
            assert varied.sum() > found


def test_fewer_outputs_than_inputs_have_no_estimate() -> None:
    counts = compile_table([[2, 1], [1, 1], [1, 2]]).counts
    assert unbiased(counts, [Fraction(v) for v in range(3)]) is None
    assert np.isnan(spread(counts, None)).tolist() == [True] * 3

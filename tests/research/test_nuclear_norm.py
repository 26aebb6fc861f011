"""The solver of eq. 4 against closed forms, its optimality conditions, and planted matrices."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from research.completion import recover, shrink

Matrix = NDArray[np.float64]


def planted(rows: int, columns: int, rank: int, seed: int = 0) -> tuple[Matrix, NDArray[np.bool_]]:
    draws = np.random.default_rng(seed)
    matrix = draws.normal(size=(rows, rank)) @ draws.normal(size=(rank, columns))
    return matrix, draws.random((rows, columns)) < 0.6


def test_with_every_cell_observed_the_solution_lowers_each_singular_value_alike() -> None:
    matrix, _ = planted(12, 9, 4)
    found = recover(matrix, np.ones(matrix.shape, np.bool_), 2.0)
    values = np.linalg.svd(matrix, compute_uv=False)
    lowered = np.linalg.svd(found.matrix, compute_uv=False)
    np.testing.assert_allclose(
        lowered, np.maximum(values - found.threshold, 0), atol=1e-6 * values[0]
    )
    assert found.residual == pytest.approx(np.linalg.norm(values - lowered), rel=1e-6)
    assert 1.99 < found.residual <= 2.0


def test_a_solution_meets_the_conditions_of_the_optimum() -> None:
    matrix, mask = planted(20, 15, 2)
    noisy = matrix + 0.2 * np.random.default_rng(1).normal(size=matrix.shape)
    found = recover(noisy, mask, 2.0, steps=5000, tolerance=1e-10)
    # P(Z - M) / t is a subgradient of the nuclear norm at M: U V' and a part of norm <= 1.
    gradient = np.where(mask, noisy - found.matrix, 0.0) / found.threshold
    left, _, right = np.linalg.svd(found.matrix, full_matrices=False)
    left, right = left[:, : found.rank], right[: found.rank]
    np.testing.assert_allclose(left.T @ gradient @ right.T, np.eye(found.rank), atol=1e-4)
    rest = gradient - left @ right
    assert np.abs(left.T @ rest).max() < 1e-4
    assert np.abs(rest @ right.T).max() < 1e-4
    assert np.linalg.norm(rest, 2) <= 1 + 1e-6


def test_a_planted_matrix_is_recovered_from_half_of_its_cells() -> None:
    matrix, mask = planted(60, 50, 2)
    found = recover(np.where(mask, matrix, np.nan), mask, 0.5)
    assert found.within
    assert found.rank == 2
    hidden = ~mask
    error = np.sqrt(np.mean((found.matrix - matrix)[hidden] ** 2))
    assert error < 0.05 * matrix.std()
    # The same solver without thresholding leaves the hidden cells at 0.
    assert np.sqrt(np.mean(matrix[hidden] ** 2)) > 10 * error


def test_a_radius_that_holds_the_whole_matrix_gives_zero() -> None:
    matrix, mask = planted(6, 5, 1)
    found = recover(matrix, mask, float(np.linalg.norm(matrix[mask])) + 1e-9)
    assert found.rank == 0
    assert not found.matrix.any()
    assert found.within


def test_shrinking_by_zero_changes_nothing() -> None:
    matrix, _ = planted(7, 6, 3)
    shrunk, rank = shrink(matrix, 1e-12)
    np.testing.assert_allclose(shrunk, matrix, atol=1e-9)
    assert rank == 3


@pytest.mark.parametrize(
    ("observed", "mask", "rho", "reason"),
    [
        (np.ones((2, 3)), np.ones((3, 2), np.bool_), 1.0, "of one shape"),
        (np.ones(3), np.ones(3, np.bool_), 1.0, "of one shape"),
        (np.ones((2, 2)), np.zeros((2, 2), np.bool_), 1.0, "no cell is observed"),
        (np.full((2, 2), np.nan), np.ones((2, 2), np.bool_), 1.0, "not a finite number"),
        (np.ones((2, 2)), np.ones((2, 2), np.bool_), -1.0, "rho -1.0"),
        (np.ones((2, 2)), np.ones((2, 2), np.bool_), float("nan"), "rho nan"),
        (np.ones((1, 5_000_000)), np.ones((1, 5_000_000), np.bool_), 1.0, "the solver is dense"),
    ],
)
def test_unusable_problems_are_refused_with_a_sentence(
    observed: Matrix, mask: NDArray[np.bool_], rho: float, reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        recover(observed, mask, rho)

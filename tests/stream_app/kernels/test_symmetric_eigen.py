"""Eigenvalues and vectors of symmetric matrices, against Jacobi's rotations and by their law."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from stream_app.kernels.linear_algebra import symmetric_eigen
from tests.naive.symmetric_eigen import symmetric_eigen as naive


def solved(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    n = len(matrix)
    values, rows = np.zeros(n), np.zeros((n, n))
    assert symmetric_eigen(matrix.copy(), values, rows)
    return values, rows


def check(matrix: np.ndarray) -> None:
    values, rows = solved(matrix)
    scale = max(float(np.abs(matrix).max(initial=0)), 1e-300)
    n = len(matrix)
    assert np.allclose(rows @ rows.T, np.eye(n), atol=1e-12 * max(n, 1))
    assert np.allclose(rows.T * values @ rows / scale, matrix / scale, atol=1e-12 * max(n, 1))
    assert (np.diff(values) <= 0).all()


@given(
    st.integers(1, 7).flatmap(
        lambda n: arrays(
            np.float64, (n, n), elements=st.sampled_from([0.0, 1.0, -1.0, 1e-9, 3.5, -1e9])
        )
    )
)
def test_vectors_and_values_give_the_matrix_back(square):
    check(square + square.T)


@pytest.mark.parametrize("n", [1, 2, 3, 8, 40])
def test_values_and_subspaces_are_those_of_rotations(n):
    square = np.random.default_rng(n).normal(size=(n, n))
    matrix = square + square.T
    values, rows = solved(matrix)
    expected, vectors = naive(matrix)
    assert np.allclose(values, expected, atol=1e-10)
    for row, vector in zip(rows, vectors, strict=True):
        assert np.allclose(np.outer(row, row), np.outer(vector, vector), atol=1e-8)


@pytest.mark.parametrize("n", [30, 120])
def test_equal_values_have_orthogonal_vectors(n):
    check(np.eye(n))
    check(np.ones((n, n)))
    check(np.zeros((n, n)))
    few = np.random.default_rng(1).normal(size=(n, 2))
    check(few @ few.T)

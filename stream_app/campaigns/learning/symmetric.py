"""Symmetric matrices in one order of operations, over the kernels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels import linear_algebra
from stream_app.kernels.linear_algebra import symmetric_eigen

Floats = NDArray[np.float64]


def decomposition(matrix: Floats) -> tuple[Floats, Floats]:
    """Return eigenvalues (n,), the largest first, and their vectors as rows (n, n)."""
    values, rows = np.zeros(len(matrix)), np.zeros_like(matrix)
    if not symmetric_eigen(matrix.copy(), values, rows):
        raise ArithmeticError(f"eigenvalues of a {len(matrix)} x {len(matrix)} matrix diverge")
    return values, rows


def product(left: Floats, right: Floats) -> Floats:
    """Return left @ right, rows added in their order."""
    out = np.zeros((len(left), right.shape[1]))
    linear_algebra.product(left, right, out)
    return out


def inverse_applied(matrix: Floats, right: Floats) -> Floats:
    """Return matrix^-1 right of a positive definite matrix."""
    values, rows = decomposition(matrix)
    turned = product(rows, right) / values[:, None]
    return product(np.ascontiguousarray(rows.T), turned)

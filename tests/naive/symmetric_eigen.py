"""Eigenvalues and vectors by Jacobi's rotations (1846), entry by entry: the obvious version."""

from __future__ import annotations

import math

import numpy as np


def symmetric_eigen(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return eigenvalues (n,), the largest first, and vectors as rows (n, n)."""
    n = len(matrix)
    a = [[float(x) for x in row] for row in matrix]
    q = [[float(i == j) for j in range(n)] for i in range(n)]
    for _ in range(60):
        for i in range(n):
            for j in range(i + 1, n):
                if a[i][j] == 0:
                    continue
                theta = (a[j][j] - a[i][i]) / (2 * a[i][j])
                t = math.copysign(1, theta) / (abs(theta) + math.sqrt(theta * theta + 1))
                c = 1 / math.sqrt(t * t + 1)
                s = t * c
                for k in range(n):
                    a[k][i], a[k][j] = c * a[k][i] - s * a[k][j], s * a[k][i] + c * a[k][j]
                for k in range(n):
                    a[i][k], a[j][k] = c * a[i][k] - s * a[j][k], s * a[i][k] + c * a[j][k]
                for k in range(n):
                    q[i][k], q[j][k] = c * q[i][k] - s * q[j][k], s * q[i][k] + c * q[j][k]
    order = sorted(range(n), key=lambda i: -a[i][i])
    return np.array([a[i][i] for i in order]), np.array([q[i] for i in order])

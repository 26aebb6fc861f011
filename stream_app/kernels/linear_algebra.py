"""Eigenvectors of symmetric matrices: the same bits on every machine.

    A = Q T Q'      n - 2 Householder reflections, T tridiagonal     (Householder 1958)
    T = Z D Z'      implicit QL with shifts                          (Bowdler et al. 1968, `tql2`)

Only + - * / and the square root, in one fixed order: LAPACK's own order depends on the processor.
Rows hold vectors, so that each inner loop runs over neighbours in memory. 300 x 300 takes about
0.1 s.

matrix: (n, n) float64, overwritten;  rows: (n, n) float64, row i is the vector of values[i];
values: (n,) float64, the largest first.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

_SMALL = 2.0**-52
_MOST_STEPS = 60  # of one eigenvalue; two or three are usual


@njit(cache=True, nogil=True, error_model="numpy")
def symmetric_eigen(matrix, values, rows):
    """Overwrite `values` and `rows`; return False where an eigenvalue did not converge, which a
    finite matrix does not do."""
    n = matrix.shape[0]
    below = np.zeros(n)
    _tridiagonal(matrix, values, below, rows)
    for first in range(n):
        steps = 0
        last = _last_coupled(values, below, first)
        while last > first:
            if steps == _MOST_STEPS:
                return False
            _ql_step(values, below, rows, first, last)
            steps += 1
            last = _last_coupled(values, below, first)
    _sort(values, rows)
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def _tridiagonal(matrix, diagonal, below, rows):
    """Reduce `matrix` to `diagonal` and `below`; `rows` becomes Q'."""
    n = matrix.shape[0]
    for i in range(n):
        for j in range(n):
            rows[i, j] = 1.0 if i == j else 0.0
    v, w = np.zeros(n), np.zeros(n)
    for k in range(n - 2):
        square = 0.0
        for i in range(k + 2, n):
            square += matrix[k, i] * matrix[k, i]
        head = matrix[k, k + 1]
        below[k] = head
        if square == 0.0:
            continue
        norm = math.sqrt(head * head + square)
        below[k] = -norm if head > 0 else norm
        v[k + 1] = head - below[k]
        for i in range(k + 2, n):
            v[i] = matrix[k, i]
        factor = 2.0 / (square + v[k + 1] * v[k + 1])
        _reflect(matrix, v, w, k + 1, factor)
        _reflect_rows(rows, v, w, k + 1, factor)
    for i in range(n):
        diagonal[i] = matrix[i, i]
    if n > 1:
        below[n - 2] = matrix[n - 2, n - 1]


@njit(cache=True, nogil=True, error_model="numpy")
def _reflect(matrix, v, w, first, factor):
    """Replace the block from `first` on by H block H, H = I - factor v v'."""
    n = matrix.shape[0]
    for j in range(first, n):
        w[j] = 0.0
    for i in range(first, n):
        for j in range(first, n):
            w[j] += v[i] * matrix[i, j]
    along = 0.0
    for j in range(first, n):
        w[j] *= factor
        along += w[j] * v[j]
    for j in range(first, n):
        w[j] -= 0.5 * factor * along * v[j]
    for i in range(first, n):
        for j in range(first, n):
            matrix[i, j] -= v[i] * w[j] + w[i] * v[j]


@njit(cache=True, nogil=True, error_model="numpy")
def _reflect_rows(rows, v, w, first, factor):
    """Replace the rows from `first` on by H rows."""
    n = rows.shape[0]
    for j in range(n):
        w[j] = 0.0
    for i in range(first, n):
        for j in range(n):
            w[j] += v[i] * rows[i, j]
    for i in range(first, n):
        by = factor * v[i]
        for j in range(n):
            rows[i, j] -= by * w[j]


@njit(cache=True, nogil=True, error_model="numpy")
def _last_coupled(diagonal, below, first):
    """Return the last index of the block that begins at `first`: `below` is nothing after it."""
    n = diagonal.size
    for last in range(first, n - 1):
        if abs(below[last]) <= _SMALL * (abs(diagonal[last]) + abs(diagonal[last + 1])):
            return last
    return n - 1


@njit(cache=True, nogil=True, error_model="numpy")
def _ql_step(diagonal, below, rows, first, last):
    """Take one QL step with Wilkinson's shift on the block first .. last, rotating `rows`."""
    g = (diagonal[first + 1] - diagonal[first]) / (2.0 * below[first])
    r = math.sqrt(g * g + 1.0)
    g = diagonal[last] - diagonal[first] + below[first] / (g + (r if g >= 0 else -r))
    s, c, p = 1.0, 1.0, 0.0
    for i in range(last - 1, first - 1, -1):
        f, b = s * below[i], c * below[i]
        r = math.sqrt(f * f + g * g)
        below[i + 1] = r
        if r == 0.0:
            diagonal[i + 1] -= p
            below[last] = 0.0
            return
        s, c = f / r, g / r
        g = diagonal[i + 1] - p
        r = (diagonal[i] - g) * s + 2.0 * c * b
        p = s * r
        diagonal[i + 1] = g + p
        g = c * r - b
        for k in range(rows.shape[1]):
            upper, lower = rows[i, k], rows[i + 1, k]
            rows[i + 1, k] = s * upper + c * lower
            rows[i, k] = c * upper - s * lower
    diagonal[first] -= p
    below[first] = g
    below[last] = 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _sort(values, rows):
    """Order by falling value, equal ones as they are."""
    n = values.size
    for i in range(n - 1):
        best = i
        for j in range(i + 1, n):
            if values[j] > values[best]:
                best = j
        if best != i:
            values[i], values[best] = values[best], values[i]
            for k in range(rows.shape[1]):
                rows[i, k], rows[best, k] = rows[best, k], rows[i, k]

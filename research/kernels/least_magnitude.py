"""The representation of least magnitude of a direction: min max_j |a_j| where Wa = x.

Its dual is a fit by least absolute deviations, solved exactly, from corner to corner:

    min_y f(y) = sum_j |w_j . y|  where  x . y = 1            max_j |a_j| = 1 / f(y)
    corner     w_i . y = 0 for d - 1 basis columns i
    at it      sum_{j not in B} sign(w_j . y) w_j = f x - sum_{i in B} l_i w_i
    optimal    |l_i| <= 1 for all of B; then a_j = sign(w_j . y) / f, and a_i = l_i / f
    else       the column of the greatest |l_i| leaves: along the edge f falls, until so many
               columns have changed sign that it would rise; the last of them enters

So d - 1 components of `a` at most lie strictly between the bounds, the other L - d + 1 at them. The
first corner is reached from y = x through columns of no cost. All in float64, sums from first to
last; no guess, no tolerance but _SLACK on |l_i|.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_SLACK = 1e-9
_FREE = -1


@njit(cache=True, nogil=True)
def _complete(x, inverse):
    """Write an orthonormal basis as columns, the first of them x, |x| = 1."""
    size = x.size
    sign = 1.0 if x[0] >= 0.0 else -1.0
    for row in range(size):
        v = x[row] + (sign if row == 0 else 0.0)
        inverse[row, 0] = x[row]
        for column in range(1, size):
            one = 1.0 if row == column else 0.0
            inverse[row, column] = one - v * x[column] / (1.0 + sign * x[0])


@njit(cache=True, nogil=True)
def _along(columns, direction, out):
    """Write w_j . direction for all j."""
    for j in range(out.size):
        total = 0.0
        for c in range(direction.size):
            total += columns[j, c] * direction[c]
        out[j] = total


@njit(cache=True, nogil=True)
def _leaving(inverse, gradient, basis, multipliers):
    """Write l_i and return the place of the column to leave, 0 where none has to.

    Columns of no cost leave first.
    """
    worst, place, free = 1.0 + _SLACK, 0, False
    for k in range(1, basis.size):
        total = 0.0
        for c in range(basis.size):
            total -= inverse[c, k] * gradient[c]
        multipliers[k] = total
        if basis[k] == _FREE:
            if not free or abs(total) > worst:
                free, place, worst = True, k, abs(total)
        elif not free and abs(total) > worst:
            place, worst = k, abs(total)
    return place


@njit(cache=True, nogil=True)
def _entering(residuals, slopes, inside, slope):
    """Return the column at which f stops falling along an edge, -1 where it never does.

    `slope` of f at the beginning, below 0 or, along a column of no cost, 0.
    """
    last = -1
    passed = 0.0
    while True:
        nearest, column = np.inf, -1
        for j in range(residuals.size):
            away = (residuals[j] >= 0.0) == (slopes[j] > 0.0)
            if inside[j] or away or abs(slopes[j]) < 1e-12:
                continue
            distance = abs(residuals[j]) / abs(slopes[j])
            later = distance > passed or (distance == passed and j > last)
            if later and distance < nearest:
                nearest, column = distance, j
        if column < 0:
            return last
        last, passed = column, nearest
        slope += 2.0 * abs(slopes[column])
        if slope >= 0.0:
            return column


@njit(cache=True, nogil=True)
def represent(x, columns, a, limit):
    """Write `a` for a direction x: (d,), |x| = 1; columns W': (L, d), L >= d. Return the magnitude.

    At most `limit` exchanges; 0 is returned where they were not enough.
    """
    factors, bits = x.size, columns.shape[0]
    inverse = np.empty((factors, factors))
    basis = np.full(factors, _FREE)
    inside = np.zeros(bits, np.bool_)
    residuals, slopes = np.empty(bits), np.empty(bits)
    gradient, multipliers = np.empty(factors), np.zeros(factors)
    _complete(x, inverse)
    for _ in range(limit):
        _along(columns, inverse[:, 0], residuals)
        gradient[:] = 0.0
        height = 0.0
        for j in range(bits):
            if not inside[j]:
                height += abs(residuals[j])
                sign = 1.0 if residuals[j] >= 0.0 else -1.0
                for c in range(factors):
                    gradient[c] += sign * columns[j, c]
        place = _leaving(inverse, gradient, basis, multipliers)
        if place == 0:
            for j in range(bits):
                a[j] = (1.0 if residuals[j] >= 0.0 else -1.0) / height
            for k in range(1, factors):
                a[basis[k]] = multipliers[k] / height
            return 1.0 / height
        edge = inverse[:, place] * (1.0 if multipliers[place] >= 0.0 else -1.0)
        _along(columns, edge, slopes)
        cost = 0.0 if basis[place] == _FREE else 1.0
        column = _entering(residuals, slopes, inside, cost - abs(multipliers[place]))
        if column < 0:
            return 0.0
        if basis[place] != _FREE:
            inside[basis[place]] = False
        basis[place], inside[column] = column, True
        _exchange(inverse, place, columns[column])
    return 0.0


@njit(cache=True, nogil=True)
def _exchange(inverse, place, row):
    """Put `row` in the place of one row of the matrix whose inverse this is."""
    size = row.size
    pivot = 0.0
    for c in range(size):
        pivot += row[c] * inverse[c, place]
    for c in range(size):
        inverse[c, place] /= pivot
    for k in range(size):
        if k != place:
            share = 0.0
            for c in range(size):
                share += row[c] * inverse[c, k]
            for c in range(size):
                inverse[c, k] -= share * inverse[c, place]


@njit(cache=True, nogil=True)
def represent_all(units, columns, out, limit):
    """Write the representation of each direction: units (n, d), out (n, L). Return how many were
    not solved within `limit` exchanges; their rows are W'x."""
    missed = 0
    for i in range(units.shape[0]):
        if represent(units[i], columns, out[i], limit) == 0.0:
            missed += 1
            _along(columns, units[i], out[i])
    return missed

"""Exact scores: s(row) = b(row) + sum_l p_l q_l(row), added in the order of l in both layouts.

The same row gets the same bits from a scan over everything (`scores`, component by component, which
vectorises over rows) and from a scan of some rows (`chosen`), so two indexes agree in every bit.

columns: (d, capacity);  vectors: (n, d);  biases: (n,);  vector p: (d,);  all float32.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_BLOCK = 1024


@njit(cache=True, nogil=True)
def scores(columns, biases, vector, out):
    """Write the scores of the first `out.size` rows."""
    factors = vector.size
    for start in range(0, out.size, _BLOCK):
        stop = min(start + _BLOCK, out.size)
        part = out[start:stop]
        bias = biases[start:stop]
        for i in range(part.size):
            part[i] = bias[i]
        k = 0
        while k + 4 <= factors:
            p0, p1, p2, p3 = vector[k], vector[k + 1], vector[k + 2], vector[k + 3]
            q0, q1 = columns[k, start:stop], columns[k + 1, start:stop]
            q2, q3 = columns[k + 2, start:stop], columns[k + 3, start:stop]
            for i in range(part.size):
                part[i] = (((part[i] + p0 * q0[i]) + p1 * q1[i]) + p2 * q2[i]) + p3 * q3[i]
            k += 4
        while k < factors:
            p0, q0 = vector[k], columns[k, start:stop]
            for i in range(part.size):
                part[i] = part[i] + p0 * q0[i]
            k += 1


@njit(cache=True, nogil=True)
def chosen(vectors, biases, rows, vector, out):
    """Write the scores of `rows`."""
    for i in range(rows.size):
        row = rows[i]
        total = biases[row]
        for k in range(vector.size):
            total = np.float32(total + np.float32(vector[k] * vectors[row, k]))
        out[i] = total

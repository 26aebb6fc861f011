"""Gradient steps over kept ratings where each component has a cell of its own (Balu 2016, 4.2).

    cell(e, c) = upper 32 bits of g, scaled to 0 .. w - 1;  g = hash64(hash(e) + (c + 1) golden)
    s(e, c)    = lowest bit of g
    p[c]       = s(u, c) C[cell(u, c)],       likewise q of the item

Feature hashing as the thesis has it: w cells, one row. The step is that of `epochs.py`. Where
vectors collide they share single components, not all of them as in the blocked layout, which costs
nothing while there are several rows (k = 4) but .004 stars of ML-1M (table 4.2) with one.

C: flat float32 (w,);  cells (n, D) int64, signs (n, D) float32: of each entity;  biases (n,)
float64;  users, items, stars: (m,), entities by number;  order: (m,) int64.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import njit

from research.kernels.epochs import fetch_columns
from stream_app.kernels.machine.scalars import GOLDEN, bounded, hash64


@njit(cache=True, nogil=True)
def place_cells(entities, w, cells, signs):
    """Write the cells and signs of entity hashes (n,) into cells and signs, both (n, D)."""
    for n in range(entities.size):
        for c in range(cells.shape[1]):
            g = hash64(entities[n] + np.uint64(c + 1) * GOLDEN)
            cells[n, c] = np.int64(bounded(g, w))
            signs[n, c] = np.float32(1 - 2 * np.int64(g & np.uint64(1)))


@njit(cache=True, nogil=True, inline="always")
def _read(C, cells, signs, n, D, out):
    for c in range(D):
        out[c] = signs[n, c] * C[cells[n, c]]


@njit(cache=True, nogil=True, inline="always")
def _dot(p, q, D):
    """Return p.q, summed in the order of the components."""
    found = np.float32(0.0)
    for c in range(D):
        found += p[c] * q[c]
    return np.float64(found)


@cache
def hashed_epoch_of(D):
    """Return the kernel for vectors of D components; its arguments are those of `epoch_of`."""

    @njit(cache=True, nogil=True, error_model="numpy")
    def epoch(
        C, cells_u, signs_u, cells_i, signs_i, biases_u, biases_i, mean, users, items, stars,
        order, eta, lam, clip,
    ):  # fmt: skip
        """Learn every rating once in the given order; return how many were skipped."""
        p, q = np.empty(D, np.float32), np.empty(D, np.float32)
        skipped = 0
        for n in range(order.size):
            fetch_columns(users, items, stars, order, n)
            u, i = users[order[n]], items[order[n]]
            _read(C, cells_u, signs_u, u, D, p)
            _read(C, cells_i, signs_i, i, D, q)
            known = mean + (biases_u[u] + biases_i[i]) + _dot(p, q, D)
            e = stars[order[n]] - known
            if e * e > clip:
                skipped += 1
                continue
            along, back = np.float32(eta * e), np.float32(-eta * lam)
            for c in range(D):
                C[cells_u[u, c]] += signs_u[u, c] * (q[c] * along + p[c] * back)
                C[cells_i[i, c]] += signs_i[i, c] * (p[c] * along + q[c] * back)
            biases_u[u] += eta * (e - lam * biases_u[u])
            biases_i[i] += eta * (e - lam * biases_i[i])
        return skipped

    return epoch


@cache
def hashed_predictions_of(D):
    """Return the kernel that predicts; its arguments are those of `predictions_of`."""

    @njit(cache=True, nogil=True, error_model="numpy")
    def predict(C, cells_u, signs_u, cells_i, signs_i, biases_u, biases_i, mean, users, items, out):
        """Write the predictions, within 1 .. 5, into out (m,) float64."""
        p, q = np.empty(D, np.float32), np.empty(D, np.float32)
        for n in range(users.size):
            u, i = users[n], items[n]
            _read(C, cells_u, signs_u, u, D, p)
            _read(C, cells_i, signs_i, i, D, q)
            known = mean + (biases_u[u] + biases_i[i]) + _dot(p, q, D)
            out[n] = min(max(known, 1.0), 5.0)

    return predict

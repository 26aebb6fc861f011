"""Sums of clipped gradients on an integer grid, one vector of cells a rating.

The model is one flat array theta: K w cells of a count sketch, then the scalars

    [mean | bias, count | bias, count | ...]          one pair a slot, slots by hash

With p and q read from the sketch (Balu 2016, eq. 4.1) and t = middle + mean + b_u + b_i + p.q,

    e = r - t
    mean, biases     share e, e, e
    counts           c each: a constant, so that their noisy sum counts what a slot has learned
    cells            s_j(u, l) e q_l / sqrt(K) and s_j(i, l) e p_l / sqrt(K) in every row j

All that falls into one cell is added first; then the vector is scaled to an L2 norm of at most
`norm` stars, put on a grid of `bound` units for `norm`, rounded towards zero, and checked in
integers: its norm is at most `bound`, exactly.

theta: (size,) float64; sums: (size,) int64; scratch: (size,) float64 of zeros, and zeros after.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.factorization.count_sketch_literal import place, read
from stream_app.kernels.machine.scalars import hash64

MIDDLE = 3.0  # of the scale 1 .. 5
COUNT = 0.5  # c
SHARE = 0.2  # of an error that moves the mean


@njit(cache=True, nogil=True, inline="always")
def slot(h, cells, size):
    """Return the place of the bias of the entity with hash h; its count follows."""
    pairs = np.uint64((size - cells - 1) // 2)
    return cells + 1 + 2 * np.int64(hash64(h) % pairs)


@njit(cache=True, nogil=True, error_model="numpy")
def predict(theta, cells, K, D, salts, users, items, out):
    """Write the prediction of each pair, unclipped, into out (m,)."""
    w = np.uint64(cells // K)
    p, q = np.empty(D), np.empty(D)
    at, signs = np.empty((K, D), np.int64), np.empty((K, D), np.float32)
    for n in range(users.size):
        hu = hash64(users[n] + salts[0])
        hi = hash64(items[n] + salts[1])
        place(hu, D, K, w, at, signs)
        read(theta, D, K, at, signs, p)
        place(hi, D, K, w, at, signs)
        read(theta, D, K, at, signs, q)
        total = theta[slot(hu, cells, theta.size)] + theta[slot(hi, cells, theta.size)]
        for c in range(D):
            total += p[c] * q[c]
        out[n] = MIDDLE + theta[cells] + total


@njit(cache=True, nogil=True, error_model="numpy")
def add_clipped(
    theta, cells, K, D, salts, users, items, stars, rows, norm, bound, scratch, sums
):  # fmt: skip
    """Add the integer vector of each rating of `rows` to `sums`; return how many were clipped."""
    w = np.uint64(cells // K)
    size = theta.size
    per_row = 1.0 / np.sqrt(np.float64(K))
    p, q = np.empty(D), np.empty(D)
    at_u, at_i = np.empty((K, D), np.int64), np.empty((K, D), np.int64)
    signs_u, signs_i = np.empty((K, D), np.float32), np.empty((K, D), np.float32)
    touched = np.empty(2 * K * D + 5, np.int64)
    held, units = np.empty(touched.size), np.empty(touched.size, np.int64)
    clipped = 0
    for n in rows:
        hu = hash64(users[n] + salts[0])
        hi = hash64(items[n] + salts[1])
        place(hu, D, K, w, at_u, signs_u)
        place(hi, D, K, w, at_i, signs_i)
        read(theta, D, K, at_u, signs_u, p)
        read(theta, D, K, at_i, signs_i, q)
        su = slot(hu, cells, size)
        si = slot(hi, cells, size)
        e = stars[n] - MIDDLE - theta[cells] - theta[su] - theta[si]
        for c in range(D):
            e -= p[c] * q[c]
        touched[0], touched[1], touched[2], touched[3], touched[4] = cells, su, si, su + 1, si + 1
        scratch[cells] += SHARE * e
        scratch[su] += e
        scratch[si] += e
        scratch[su + 1] += COUNT
        scratch[si + 1] += COUNT
        m = 5
        for j in range(K):
            for c in range(D):
                scratch[at_u[j, c]] += signs_u[j, c] * e * q[c] * per_row
                scratch[at_i[j, c]] += signs_i[j, c] * e * p[c] * per_row
                touched[m], touched[m + 1] = at_u[j, c], at_i[j, c]
                m += 2
        different = 0
        square = 0.0
        for t in range(m):  # a cell that was touched twice is taken once, with its sum
            value = scratch[touched[t]]
            if value != 0.0:
                scratch[touched[t]] = 0.0
                touched[different] = touched[t]
                held[different] = value
                different += 1
                square += value * value
        if not square < np.inf:
            continue
        length = np.sqrt(square)
        clipped += length > norm
        factor = bound / max(norm, length)
        total = bound * bound + 1
        while total > bound * bound:
            total = 0
            for t in range(different):
                units[t] = np.int64(held[t] * factor)
                total += units[t] * units[t]
            factor *= 0.999
        for t in range(different):
            sums[touched[t]] += units[t]
    return clipped


@njit(cache=True, nogil=True, error_model="numpy")
def langevin(theta, cells, K, D, salts, users, items, stars, rows, noise, eta, shrink):
    """Take one step per rating on its two vectors and biases, as Balu 2016, (2.13), (2.14) print.

    noise: (rows, 2 D + 2) standard normal values: of p, of q, of the two biases.
    """
    w = np.uint64(cells // K)
    p, q = np.empty(D), np.empty(D)
    at_u, at_i = np.empty((K, D), np.int64), np.empty((K, D), np.int64)
    signs_u, signs_i = np.empty((K, D), np.float32), np.empty((K, D), np.float32)
    spread = np.sqrt(eta)
    for r in range(rows.size):
        n = rows[r]
        hu = hash64(users[n] + salts[0])
        hi = hash64(items[n] + salts[1])
        place(hu, D, K, w, at_u, signs_u)
        place(hi, D, K, w, at_i, signs_i)
        read(theta, D, K, at_u, signs_u, p)
        read(theta, D, K, at_i, signs_i, q)
        su = slot(hu, cells, theta.size)
        si = slot(hi, cells, theta.size)
        e = stars[n] - MIDDLE - theta[su] - theta[si]
        for c in range(D):
            e -= p[c] * q[c]
        theta[su] += eta * (e - shrink * theta[su]) + spread * noise[r, 2 * D]
        theta[si] += eta * (e - shrink * theta[si]) + spread * noise[r, 2 * D + 1]
        for c in range(D):
            of_user = eta * (e * q[c] - shrink * p[c]) + spread * noise[r, c]
            of_item = eta * (e * p[c] - shrink * q[c]) + spread * noise[r, D + c]
            for j in range(K):
                theta[at_u[j, c]] += signs_u[j, c] * of_user
                theta[at_i[j, c]] += signs_i[j, c] * of_item

"""Gradient steps over ratings that are kept, epoch after epoch (Balu 2016, 4.1.5).

    e = r - (mu + b_u + b_i + p.q),    skipped where e^2 > clip
    b += eta (e - lam b),    p += eta (e q - lam p),    q += eta (e p - lam q), p before the step

A vector is read from and written to K blocks of D cells with a sign a component
(`factorization/count_sketch_blocked.py`). One block a vector, its own, without signs, is the
ordinary model; one shared block is feature hashing.

C: flat float32;  at (K, n) int64, words (K, n) uint64: blocks and signs of each entity;  biases
(n,) float64;  users, items, stars: (m,), entities by number;  order: (m,) int64.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import njit

from stream_app.kernels.factorization.count_sketch_blocked import read, write
from stream_app.kernels.machine.memory import prefetch
from stream_app.kernels.machine.simd import add, multiply, scale, total

FAR, NEAR = 48, 12  # ratings ahead: columns are asked for, then blocks
LINE = 16  # floats in a cache line


@njit(cache=True, nogil=True, inline="always")
def fetch_columns(users, items, stars, order, n):
    """Prefetch the columns of the rating FAR places behind place n of the order."""
    far = order[min(n + FAR, order.size - 1)]
    prefetch(users, far)
    prefetch(items, far)
    prefetch(stars, far)


@njit(cache=True, nogil=True)
def mean_of(stars):
    """Return the mean of stars (m,), summed in their order; 0 of none."""
    total_of = 0.0
    for n in range(stars.size):
        total_of += stars[n]
    return total_of / max(stars.size, 1)


@cache
def epoch_of(D, K):
    """Return the kernel for vectors of D components in K blocks."""

    @njit(cache=True, nogil=True, error_model="numpy")
    def epoch(
        C, at_u, words_u, at_i, words_i, biases_u, biases_i, mean, users, items, stars, order,
        eta, lam, clip,
    ):  # fmt: skip
        """Learn every rating once in the given order; return how many were skipped."""
        skipped = 0
        for n in range(order.size):
            fetch_columns(users, items, stars, order, n)
            near = order[min(n + NEAR, order.size - 1)]
            for j in range(K):
                for line in range(0, D, LINE):
                    prefetch(C, at_u[j, users[near]] + line)
                    prefetch(C, at_i[j, items[near]] + line)
            u, i = users[order[n]], items[order[n]]
            p = read(C, at_u, words_u, u, D, K)
            q = read(C, at_i, words_i, i, D, K)
            known = mean + (biases_u[u] + biases_i[i]) + np.float64(total(multiply(p, q)))
            e = stars[order[n]] - known
            if e * e > clip:
                skipped += 1
                continue
            along, back = np.float32(eta * e), np.float32(-eta * lam)
            step_p = add(scale(q, along), scale(p, back))
            step_q = add(scale(p, along), scale(q, back))
            write(C, at_u, words_u, u, D, K, step_p)
            write(C, at_i, words_i, i, D, K, step_q)
            biases_u[u] += eta * (e - lam * biases_u[u])
            biases_i[i] += eta * (e - lam * biases_i[i])
        return skipped

    return epoch


@cache
def predictions_of(D, K):
    """Return the kernel that predicts."""

    @njit(cache=True, nogil=True, error_model="numpy")
    def predict(C, at_u, words_u, at_i, words_i, biases_u, biases_i, mean, users, items, out):
        """Write the predictions, within 1 .. 5, into out (m,) float64."""
        for n in range(users.size):
            u, i = users[n], items[n]
            p = read(C, at_u, words_u, u, D, K)
            q = read(C, at_i, words_i, i, D, K)
            known = mean + (biases_u[u] + biases_i[i]) + np.float64(total(multiply(p, q)))
            out[n] = min(max(known, 1.0), 5.0)

    return predict

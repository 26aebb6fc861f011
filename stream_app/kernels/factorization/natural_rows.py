"""Rows of entities as natural parameters, whose changes add (`models/factorization/joining.py`).

    natural    1 / share of the bias, 1 / share of the vector, and each times its estimate
    change     natural - that of a row which nobody has rated - base
    base       (R, 3 + D) int64, what was merged, in units of 2^-24, by the row of its own

A sum of integers does not depend on the order, so the base is equal in every bit wherever the same
changes were merged. Entities without a row of their own are passed over.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.factorization.bias_table import BIAS, BIAS_SHARE, SHARE, slot_of, tag_of
from stream_app.kernels.factorization.hybrid_rows import claim
from stream_app.kernels.factorization.initialization import component
from stream_app.kernels.factorization.kalman_update import BIAS_LIMIT, LEAST_SHARE, within
from stream_app.kernels.machine.dirty_pages import FLOATS, touch_bytes, touch_floats, touch_triple
from stream_app.kernels.machine.scalars import hash64

ONE = 1 << 24  # units of a base: the smallest positive float16 is one of them
BIAS_PRECISION, PRECISION, BIAS_MOMENT, MOMENTS = range(4)


@njit(cache=True, nogil=True)
def subtract_base(C, tags, scalars, owners, base, salt, scale, D, keys, changes, own):
    """Write what is known of each key beyond the base into changes (n, 3 + D) float32, and into own
    (n,) whether it has a row of its own."""
    for n in range(keys.size):
        h = hash64(keys[n] + salt)
        s = slot_of(tags, h)
        row = np.int64(owners[s]) - 1
        own[n] = (tags[s] == tag_of(h)) & (row >= 0)
        if not own[n]:
            continue
        first = 1.0 / np.float64(scalars[s, BIAS_SHARE])
        second = 1.0 / np.float64(scalars[s, SHARE])
        bias = first * np.float64(scalars[s, BIAS])
        changes[n, BIAS_PRECISION] = ((first - 1.0) * ONE - base[row, BIAS_PRECISION]) / ONE
        changes[n, PRECISION] = ((second - 1.0) * ONE - base[row, PRECISION]) / ONE
        changes[n, BIAS_MOMENT] = (bias * ONE - base[row, BIAS_MOMENT]) / ONE
        for c in range(D):
            moment = second * np.float64(C[row * D + c]) - np.float64(component(h, c, scale))
            changes[n, MOMENTS + c] = (moment * ONE - base[row, MOMENTS + c]) / ONE


@njit(cache=True, nogil=True)
def sum_changes(places, changes, sums):
    """Add each row of changes (n, W) float32, in units of ONE, to its place in sums (m, W)."""
    for n in range(places.size):
        place = places[n]
        for c in range(changes.shape[1]):
            sums[place, c] += np.int64(np.rint(np.float64(changes[n, c]) * ONE))


@njit(cache=True, nogil=True)
def add_to_base(
    C, tags, scalars, owners, given, C_pages, tags_pages, scalars_pages, owners_pages,
    base, base_pages, rows, salt, scale, D, keys, sums, foreign,
):  # fmt: skip
    """Add sums (n, 3 + D) to the base of each key and, where they are `foreign`, to its row, which
    it takes where one is left."""
    size = 8 * base.shape[1]
    for n in range(keys.size):
        h = hash64(keys[n] + salt)
        s = slot_of(tags, h)
        if foreign:
            claim(C, tags, owners, given, C_pages, tags_pages, owners_pages, s, h, scale, rows, D)
        row = np.int64(owners[s]) - 1
        if tags[s] != tag_of(h) or row < 0:
            continue
        touch_bytes(base_pages, row * size, size)
        for c in range(MOMENTS + D):
            base[row, c] += sums[n, c]
        if not foreign:
            continue
        touch_triple(scalars_pages, s, FLOATS)
        first, second = np.float64(scalars[s, BIAS_SHARE]), np.float64(scalars[s, SHARE])
        bias = np.float64(scalars[s, BIAS]) / first + sums[n, BIAS_MOMENT] / ONE
        # Estimates by the precision that is kept, or one that was held would be stretched.
        precision = max(1.0 / first + sums[n, BIAS_PRECISION] / ONE, 1.0)
        share = within(1.0 / precision, LEAST_SHARE, 1.0)
        scalars[s, BIAS] = np.float32(within(bias * share, -BIAS_LIMIT, BIAS_LIMIT))
        scalars[s, BIAS_SHARE] = np.float32(share)
        precision = max(1.0 / second + sums[n, PRECISION] / ONE, 1.0)
        share = within(1.0 / precision, LEAST_SHARE, 1.0)
        scalars[s, SHARE] = np.float32(share)
        touch_floats(C_pages, row * D, D)
        for c in range(D):
            moment = np.float64(C[row * D + c]) / second + sums[n, MOMENTS + c] / ONE
            C[row * D + c] = np.float32(moment * share)

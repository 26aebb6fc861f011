"""Rows of entities as natural parameters, whose changes add (`models/factorization/joining.py`).

    natural    1 / share of the bias, 1 / share of the vector, and each times its estimate
    base       (R, 3 + D) int64, in units of 2^-24: those of a row that nobody has rated, and what
               was merged; all 0 before the first merge; by the entity's row of its own
    change     natural - base, (n, 3 + D) float32; as float16 on the wire, a whole number of units

A sum of integers does not depend on the order, so the base is equal in every bit wherever the same
changes were merged. Entities without a row of their own are passed over.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.factorization.bias_table import (
    BIAS,
    BIAS_SHARE,
    SHARE,
    fetch_bucket,
    slot_of,
    tag_of,
)
from stream_app.kernels.factorization.hybrid_rows import claim
from stream_app.kernels.factorization.initialization import component
from stream_app.kernels.factorization.kalman_update import BIAS_LIMIT, LEAST_SHARE, within
from stream_app.kernels.machine.dirty_pages import FLOATS, touch_bytes, touch_floats, touch_triple
from stream_app.kernels.machine.memory import prefetch
from stream_app.kernels.machine.scalars import hash64

ONE = 1 << 24  # units of a base: the smallest positive float16 is one of them
TOGETHER = 16  # keys whose rows are on their way
BIAS_PRECISION, PRECISION, BIAS_MOMENT, MOMENTS = range(4)


@njit(cache=True, nogil=True)
def _fetch(C, tags, scalars, owners, base, salt, D, keys, vectors):
    """Prefetch the rows of keys, which are read next; changes nothing."""
    for n in range(keys.size):
        fetch_bucket(tags, scalars, hash64(keys[n] + salt))
    for n in range(keys.size):
        row = max(np.int64(owners[slot_of(tags, hash64(keys[n] + salt))]) - 1, 0)
        for line in range(0, MOMENTS + D, 8):
            prefetch(base, row * (MOMENTS + D) + line)
        for line in range(0, D if vectors else 0, 16):
            prefetch(C, row * D + line)


@njit(cache=True, nogil=True, inline="always")
def _is_blank(base, row):
    return (base[row, BIAS_PRECISION] | base[row, PRECISION]) == 0


@njit(cache=True, nogil=True)
def _write_first(base, row, h, scale, D):
    """Write the natural parameters of a row that nobody has rated."""
    base[row, BIAS_PRECISION], base[row, PRECISION], base[row, BIAS_MOMENT] = ONE, ONE, 0
    for c in range(D):
        base[row, MOMENTS + c] = np.int64(np.rint(np.float64(component(h, c, scale)) * ONE))


@njit(cache=True, nogil=True)
def subtract_base(C, tags, scalars, owners, base, salt, scale, D, keys, changes, own):
    """Write what is known of each key beyond the base into changes, and into own (n,) whether it
    has a row of its own."""
    first, flat = np.zeros((1, base.shape[1]), np.int64), base.reshape(-1)
    for n in range(keys.size):
        if n % TOGETHER == 0:
            _fetch(C, tags, scalars, owners, flat, salt, D, keys[n : n + TOGETHER], True)
        h = hash64(keys[n] + salt)
        s = slot_of(tags, h)
        row = np.int64(owners[s]) - 1
        own[n] = (tags[s] == tag_of(h)) & (row >= 0)
        if not own[n]:
            continue
        before = base[row]
        if _is_blank(base, row):
            _write_first(first, 0, h, scale, D)
            before = first[0]
        precision = 1.0 / np.float64(scalars[s, BIAS_SHARE])
        moment = precision * np.float64(scalars[s, BIAS])
        changes[n, BIAS_PRECISION] = precision - before[BIAS_PRECISION] / ONE
        changes[n, BIAS_MOMENT] = moment - before[BIAS_MOMENT] / ONE
        precision = 1.0 / np.float64(scalars[s, SHARE])
        changes[n, PRECISION] = precision - before[PRECISION] / ONE
        for c in range(D):
            moment = precision * np.float64(C[row * D + c])
            changes[n, MOMENTS + c] = moment - np.float64(before[MOMENTS + c]) / ONE


@njit(cache=True, nogil=True, inline="always")
def _units(half):
    """Return the units of a float16, given its bits: a whole number, since the smallest is one."""
    bits = np.int64(half)
    exponent, fraction = (bits >> 10) & 31, bits & 1023
    value = (fraction + 1024) << max(exponent - 1, 0) if exponent else fraction
    return -value if bits >> 15 else value


@njit(cache=True, nogil=True)
def sum_changes(places, changes, sums):
    """Add each row of changes (n, 3 + D), the bits of float16 as uint16, to its place in sums
    (m, 3 + D) int64."""
    for n in range(places.size):
        place = places[n]
        for c in range(changes.shape[1]):
            sums[place, c] += _units(changes[n, c])


@njit(cache=True, nogil=True)
def add_to_base(
    C, tags, scalars, owners, given, C_pages, tags_pages, scalars_pages, owners_pages,
    base, base_pages, rows, salt, scale, D, keys, sums, foreign,
):  # fmt: skip
    """Add sums (n, 3 + D) to the base of each key and, where they are `foreign`, to its row, which
    it takes where one is left."""
    size, flat = 8 * base.shape[1], base.reshape(-1)
    for n in range(keys.size):
        if n % TOGETHER == 0:
            _fetch(C, tags, scalars, owners, flat, salt, D, keys[n : n + TOGETHER], foreign)
        h = hash64(keys[n] + salt)
        s = slot_of(tags, h)
        if foreign:
            claim(C, tags, owners, given, C_pages, tags_pages, owners_pages, s, h, scale, rows, D)
        row = np.int64(owners[s]) - 1
        if tags[s] != tag_of(h) or row < 0:
            continue
        touch_bytes(base_pages, row * size, size)
        if _is_blank(base, row):
            _write_first(base, row, h, scale, D)
        for c in range(base.shape[1]):
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
        kept, added = share / second, share / ONE
        for c in range(D):
            estimate = np.float64(C[row * D + c]) * kept + np.float64(sums[n, MOMENTS + c]) * added
            C[row * D + c] = np.float32(estimate)

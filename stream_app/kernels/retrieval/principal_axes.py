"""Principal axes of items and the bytes along them, the same bits on every machine.

Sums go over one row after the other, and over its components in their order: BLAS would choose an
order by the processor. Sixteen components are encoded at a time, one a lane (`lanes.py`).

vectors: (n, d) float32;  axes: flat (d, 16) float32, row k holds component k of every axis.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.machine.lanes import add, load, multiply, spread, store

AXES = 16
_GROUP = 32
_UP = 1.0 + 2.0**-20  # more than a float32 is rounded down by
_LONGEST = 3e38  # infinity times a weight of zero would be no number


@njit(cache=True, nogil=True)
def squared_lengths(vectors, step, out):
    """Write |v|^2 of every `step`-th row into out (m,) float64."""
    for m in range(out.size):
        found = 0.0
        for i in range(vectors.shape[1]):
            found += np.float64(vectors[m * step, i]) ** 2
        out[m] = found


@njit(cache=True, nogil=True)
def moments(vectors, step, lengths, most, out):
    """Write the sum of v v' over every `step`-th row with |v|^2 of at most `most` into out (d, d)
    float64; lengths: (m,), those of `squared_lengths`."""
    d = vectors.shape[1]
    out[:] = 0.0
    row = np.empty(d)
    for m in range(lengths.size):
        if lengths[m] > most:
            continue
        n = m * step
        for i in range(d):
            row[i] = vectors[n, i]
        for i in range(d):
            x = row[i]
            for j in range(d):
                out[i, j] += x * row[j]


@njit(cache=True, nogil=True, inline="always")
def _rotate(vectors, row, axes, flat):
    """Write the components of a row along the axes into flat (AXES,) float32."""
    v = multiply(spread(vectors[row, 0]), load(axes, 0))
    for k in range(1, vectors.shape[1]):
        v = add(v, multiply(spread(vectors[row, k]), load(axes, k * AXES)))
    store(flat, 0, v)


@njit(cache=True, nogil=True)
def rotated(vectors, step, axes, out):
    """Write the components of every `step`-th row along the axes into out (m, AXES) float32."""
    flat = np.empty(AXES, np.float32)
    for m in range(out.shape[0]):
        _rotate(vectors, m * step, axes, flat)
        for c in range(AXES):
            out[m, c] = flat[c]


@njit(cache=True, nogil=True)
def leading_lengths(vectors, axes, out):
    """Write the length of every row's components along the first axes, those of the coarse bytes,
    into out (n,) float32."""
    flat = np.empty(AXES, np.float32)
    for n in range(out.size):
        _rotate(vectors, n, axes, flat)
        found = np.float32(0.0)
        for c in range(AXES // 2):
            found += flat[c] * flat[c]
        out[n] = np.sqrt(found)


@njit(cache=True, nogil=True)
def encode(
    vectors, biases, rows, slots, axes, scales, coarse, fine, top_biases, top_lengths, beyond
):  # fmt: skip
    """Set the codes of rows in their slots, and in `beyond` (n,) uint8 whether a number of a row is
    outside the range of its byte; return how many of these rows are.

    slots: (n,) int32, of each row;  scales: (1 + AXES,) float32, that of the bias in the middle,
    behind those of the coarse columns;  coarse, fine: the layout of `pca_scan.py`;  top_biases,
    top_lengths: (groups,) float32, the largest code of a bias in each group and the largest length
    along the coarse axes, never made smaller here.
    """
    flat = np.empty(AXES, np.float32)
    columns = AXES // 2
    outside = 0
    for row in rows:
        g, i = np.int64(slots[row]) // _GROUP, np.int64(slots[row]) % _GROUP
        _rotate(vectors, row, axes, flat)
        whole, length = True, 0.0
        for c in range(AXES + 1):
            x = biases[row] if c == columns else flat[c - np.int64(c > columns)]
            x = np.rint(x * scales[c])
            # Neither holds for a sum that is not a number.
            fits = abs(x) <= np.float32(127.0)
            whole = whole and fits
            limit = np.float32(127.0) if x > np.float32(0.0) else np.float32(-127.0)
            code = np.int8(x if fits else limit)
            if c <= columns:
                coarse[(g * (columns + 1) + c) * _GROUP + i] = code
            else:
                fine[(g * columns + c - 1 - columns) * _GROUP + i] = code
            if c < columns and scales[c] > 0:
                length += (np.float64(code) / np.float64(scales[c])) ** 2
            if c == columns:
                top_biases[g] = max(top_biases[g], np.float32(code))
        length = min(np.sqrt(length) * _UP, _LONGEST)
        top_lengths[g] = max(top_lengths[g], np.float32(length))
        beyond[row] = np.uint8(not whole)
        outside += np.int64(not whole)
    return outside

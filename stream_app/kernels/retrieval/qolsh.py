"""Quantization-optimized LSH: binary codes of directions (Balu 2016, section 5.3).

    W       (d, L) tight frame, W W' = I_d;   G = W'W
    code    b = sign(W'x), sign(0) = +1                                       (5.1)
            then flip, at most M times, the bit that raises L(b) most         (5.11, 5.12)
    L(b)    = x'Wb / |Wb|     for |x| = 1                                     (5.10)
    flip j  num = x'Wb -> num - 2 b_j A_j          A = W'x
            den = |Wb|^2 -> den - 4 b_j Y_j + 4 G_jj,   Y = W'Wb -> Y - 2 b_j G_j

    starts  start t flips first those of the least certain bits (the lowest |A_j|) whose number is
            a bit of t, start 0 none; the best code of all starts is kept, ties to the first

Bit l of a code is bit l mod 64 of word l // 64, 1 for +1. L(b)^2 = num^2 / den is compared, so no
root is taken; a flip that leaves den <= 1e-9 or num <= 0 is no candidate; ties go to the first bit.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.machine.lanes import (
    above,
    add,
    as_bits,
    both,
    choose,
    divide,
    equal,
    highest,
    load,
    multiply,
    spread,
    store,
    subtract,
)
from stream_app.kernels.machine.scalars import popcount

_GROUP = 4  # vectors that are encoded together
_ZERO, _ONE, _TWO, _FOUR = np.float32(0), np.float32(1), np.float32(2), np.float32(4)
_MINUS_ONE, _EIGHT, _NOTHING = np.float32(-1), np.float32(8), np.float32(-np.inf)
_SMALLEST = np.float32(1e-9)
# A flip must gain more than a rounding error of float32, or two bits could flip back and forth.
_GAIN = np.float32(1 + 2e-6)


@njit(cache=True, nogil=True)
def _candidates(num, den, T, U, out):
    """Write L(b)^2 after each possible flip, and return the greatest."""
    best, zero, smallest = spread(_ZERO), spread(_ZERO), spread(_SMALLEST)
    nums, dens = spread(num), spread(den)
    for j in range(0, out.size, 16):
        n = subtract(nums, load(T, j))
        e = add(dens, load(U, j))
        valid = both(above(n, zero), above(e, smallest))
        value = choose(valid, divide(multiply(n, n), choose(valid, e, smallest)), zero)
        store(out, j, value)
        best = choose(above(value, best), value, best)
    return highest(best)


@njit(cache=True, nogil=True)
def _first(values, wanted):
    """Return the first place of a value that is there."""
    target = spread(wanted)
    j = 0
    while True:
        bits = as_bits(equal(load(values, j), target))
        if bits:
            return j + np.int64(popcount((bits - np.uint64(1)) & ~bits))
        j += 16


@njit(cache=True, nogil=True)
def _update(U, step, signs, row):
    """Add step * signs * row to U."""
    steps = spread(step)
    for j in range(0, U.size, 16):
        change = multiply(multiply(steps, load(signs, j)), load(row, j))
        store(U, j, add(load(U, j), change))


@njit(cache=True, nogil=True)
def _products(rows, inner, stride, matrix, width, out):
    """Write four rows times a matrix, each sum from first to last: rows (4, stride), of which
    `inner` columns count; matrix (inner, width), out (4, width), flat; width a multiple of 16."""
    second, third, fourth = stride, 2 * stride, 3 * stride
    column = 0
    while column + 32 <= width:
        a0, a1, b0, b1 = spread(_ZERO), spread(_ZERO), spread(_ZERO), spread(_ZERO)
        c0, c1, d0, d1 = spread(_ZERO), spread(_ZERO), spread(_ZERO), spread(_ZERO)
        for k in range(inner):
            left, right = load(matrix, k * width + column), load(matrix, k * width + column + 16)
            a, b = spread(rows[k]), spread(rows[second + k])
            c, d = spread(rows[third + k]), spread(rows[fourth + k])
            a0, a1 = add(a0, multiply(a, left)), add(a1, multiply(a, right))
            b0, b1 = add(b0, multiply(b, left)), add(b1, multiply(b, right))
            c0, c1 = add(c0, multiply(c, left)), add(c1, multiply(c, right))
            d0, d1 = add(d0, multiply(d, left)), add(d1, multiply(d, right))
        store(out, column, a0)
        store(out, column + 16, a1)
        store(out, width + column, b0)
        store(out, width + column + 16, b1)
        store(out, 2 * width + column, c0)
        store(out, 2 * width + column + 16, c1)
        store(out, 3 * width + column, d0)
        store(out, 3 * width + column + 16, d1)
        column += 32
    if column < width:
        a0, b0, c0, d0 = spread(_ZERO), spread(_ZERO), spread(_ZERO), spread(_ZERO)
        for k in range(inner):
            left = load(matrix, k * width + column)
            a0 = add(a0, multiply(spread(rows[k]), left))
            b0 = add(b0, multiply(spread(rows[second + k]), left))
            c0 = add(c0, multiply(spread(rows[third + k]), left))
            d0 = add(d0, multiply(spread(rows[fourth + k]), left))
        store(out, column, a0)
        store(out, width + column, b0)
        store(out, 2 * width + column, c0)
        store(out, 3 * width + column, d0)


@njit(cache=True, nogil=True)
def _normalize(vector, unit):
    """Write vector / |vector| into `unit`, zeros for a zero vector, and return |vector|."""
    square = 0.0
    for k in range(vector.size):
        square += np.float64(vector[k]) * np.float64(vector[k])
    norm = np.sqrt(square)
    inverse = 1.0 / norm if norm > 0.0 else 0.0
    for k in range(vector.size):
        unit[k] = np.float64(vector[k]) * inverse
    return norm


@njit(cache=True, nogil=True)
def _least_certain(A, out):
    """Write the places of the lowest |A_j|, lowest first, ties to the first bit."""
    for place in range(out.size):
        lowest = np.float32(np.inf)
        for j in range(A.size):
            value = abs(A[j])
            for before in range(place):
                if out[before] == j:
                    value = np.float32(np.inf)
            if value < lowest:
                lowest = value
                out[place] = j


@njit(cache=True, nogil=True)
def _begin(A, bits, signs):
    """Write the signs of A, and zeros past the last bit."""
    for j in range(0, signs.size, 16):
        below = above(spread(_ZERO), load(A, j))
        store(signs, j, choose(below, spread(_MINUS_ONE), spread(_ONE)))
    signs[bits:] = _ZERO


@njit(cache=True, nogil=True)
def _prepare(A, bits, signs, diagonal, T, U):
    """Write T and U of `_descend`; U holds Y before."""
    for j in range(0, T.size, 16):
        s = load(signs, j)
        store(T, j, multiply(spread(_TWO), multiply(s, load(A, j))))
        step = subtract(load(diagonal, j), multiply(s, load(U, j)))
        store(U, j, multiply(spread(_FOUR), step))
    U[bits:] = _NOTHING


@njit(cache=True, nogil=True)
def _descend(num, den, signs, T, U, gram, flips, after):
    """Flip bits while that helps; return L(b)^2 and |Wb|^2. All of one vector, up to a multiple of
    16 bits; past the last bit signs and G are 0 and U is -infinite.

    T = 2 b_j A_j and U = 4 G_jj - 4 b_j Y_j: a flip of j makes them num -= T_j, den += U_j,
    U_k += 8 b_j b_k G_jk, and T_j and U_j themselves change their signs.
    """
    now = num * num / den if num > _ZERO and den > _SMALLEST else _ZERO
    for _ in range(flips):
        most = _candidates(num, den, T, U, after)
        if most <= now * _GAIN:
            break
        j = _first(after, most)
        num -= T[j]
        den += U[j]
        own = -U[j]
        _update(U, _EIGHT * signs[j], signs, gram[j])
        T[j], U[j], signs[j] = -T[j], own, -signs[j]
        now = most
    return now, den


@njit(cache=True, nogil=True)
def encode(
    vectors, frame, columns, gram, diagonal, flips, starts, codes, norms, lengths, objectives
):
    """Write the code of each vector's direction, |vector|, |Wb| and L(b).

    vectors: (n, d); frame W: (d, L or more) and columns W': (L, d or more), zeros past their ends
    up to a multiple of 16; gram G: (L, as wide as W) and its diagonal, as long, all float32;
    codes: (n, words) uint64; the rest (n,) float32. `starts` is at most 2^L.
    """
    factors, bits = vectors.shape[1], gram.shape[0]
    width, padded = frame.shape[1], columns.shape[1]
    flat, flat_columns = frame.reshape(-1), columns.reshape(-1)
    A, Y = np.empty((_GROUP, width), np.float32), np.empty((_GROUP, width), np.float32)
    signs = np.zeros((_GROUP, width), np.float32)
    T, after = np.zeros(width, np.float32), np.empty(width, np.float32)
    units = np.empty((_GROUP, factors), np.float32)
    image = np.empty((_GROUP, padded), np.float32)
    count = 0
    while 1 << count < starts:
        count += 1
    uncertain = np.empty((_GROUP, count), np.int64)
    for first in range(0, vectors.shape[0], _GROUP):
        size = min(_GROUP, vectors.shape[0] - first)
        units[:] = _ZERO
        for v in range(size):
            norms[first + v] = _normalize(vectors[first + v], units[v])
        _products(units.reshape(-1), factors, factors, flat, width, A.reshape(-1))
        for v in range(size):
            _least_certain(A[v, :bits], uncertain[v])
        for start in range(starts):
            for v in range(size):
                _begin(A[v], bits, signs[v])
                for place in range(count):
                    if (start >> place) & 1:
                        signs[v, uncertain[v, place]] = -signs[v, uncertain[v, place]]
            _products(signs.reshape(-1), bits, width, flat_columns, padded, image.reshape(-1))
            _products(image.reshape(-1), factors, padded, flat, width, Y.reshape(-1))
            for v in range(size):
                i = first + v
                num, den = _ZERO, _ZERO
                for k in range(factors):
                    num += units[v, k] * image[v, k]
                    den += image[v, k] * image[v, k]
                own, U = signs[v], Y[v]
                _prepare(A[v], bits, own, diagonal, T, U)
                now, den = _descend(num, den, own, T, U, gram, flips, after)
                if start == 0 or now > objectives[i]:
                    _pack(signs[v], codes[i])
                    lengths[i] = np.sqrt(max(den, _ZERO))
                    objectives[i] = now
        for v in range(size):
            objectives[first + v] = np.sqrt(objectives[first + v])


@njit(cache=True, nogil=True)
def _pack(signs, words):
    """Write the words of a code: bit j is whether signs[j] > 0; sizes are multiples of 16."""
    words[:] = 0
    for first in range(0, signs.size, 16):
        bits = as_bits(above(load(signs, first), spread(_ZERO)))
        words[first // 64] |= bits << np.uint64(first % 64)

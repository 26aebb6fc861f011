"""Quantization-optimized LSH: binary codes of directions (S004 section 5.3).

    W       (d, L) tight frame, W W' = I_d;   G = W'W
    code    b = sign(W'x), sign(0) = +1; then flip, at most M times, the bit that raises most        (5.1, 5.11, 5.12)
    L(b)    = x'Wb / |Wb|     for |x| = 1                                                            (5.10)
    flip j  num = x'Wb -> num - 2 b_j A_j          A = W'x
            den = |Wb|^2 -> den - 4 b_j Y_j + 4 G_jj,   Y = W'Wb -> Y - 2 b_j G_j

Bit l of a code is bit l mod 64 of word l // 64, 1 for +1. L(b)^2 = num^2 / den is compared, so no root is taken;
a flip that leaves den <= 1e-9 or num <= 0 is no candidate; ties go to the lowest bit.

Two estimates of a score b + |q| |p| cos from the code of q, which is kept apart from its length and bias:
    from two codes     cos = cos(pi * Hamming / L)                                                   (2.19)
    from p and a code  cos = p'Wb / (|p| |Wb| L(b)): (5.14), freed of the shrinkage L(b) of the code
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.words import ones

_BLOCK = 512
_TWO, _FOUR, _ZERO = np.float32(2), np.float32(4), np.float32(0)
_SMALLEST = np.float32(1e-9)
# A flip must gain more than the rounding of float32 could pretend, or two bits could swap forever.
_GAIN = np.float32(1 + 2e-6)


@njit(cache=True, nogil=True)
def _candidates(num, den, signs, A, Y, diagonal, out):
    """Write L(b)^2 after each possible flip."""
    for j in range(out.size):
        n = num - _TWO * signs[j] * A[j]
        e = den - _FOUR * signs[j] * Y[j] + _FOUR * diagonal[j]
        out[j] = n * n / e if n > _ZERO and e > _SMALLEST else _ZERO


@njit(cache=True, nogil=True)
def _add_rows(out, factors, rows):
    """Add sum_k factors[k] * rows[k] to `out`, four rows at a time."""
    k = 0
    while k + 4 <= factors.size:
        f0, f1, f2, f3 = factors[k], factors[k + 1], factors[k + 2], factors[k + 3]
        r0, r1, r2, r3 = rows[k], rows[k + 1], rows[k + 2], rows[k + 3]
        for j in range(out.size):
            out[j] += (f0 * r0[j] + f1 * r1[j]) + (f2 * r2[j] + f3 * r3[j])
        k += 4
    while k < factors.size:
        f0, r0 = factors[k], rows[k]
        for j in range(out.size):
            out[j] += f0 * r0[j]
        k += 1


@njit(cache=True, nogil=True)
def _normalize(vector, unit):
    """Write vector / |vector| into `unit`, zeros for a zero vector, and return |vector|."""
    square = 0.0
    for k in range(vector.size):
        square += np.float64(vector[k]) * np.float64(vector[k])
    norm = np.sqrt(square)
    for k in range(vector.size):
        unit[k] = vector[k] / norm if norm > 0.0 else 0.0
    return norm


@njit(cache=True, nogil=True)
def encode(vectors, frame, columns, gram, diagonal, flips, codes, norms, lengths, objectives):
    """Write the code of each vector's direction, |vector|, |Wb| and L(b).

    vectors: (n, d); frame W: (d, L); columns W': (L, d or more, zeros past d, so that lanes are full);
    gram G: (L, L) and its diagonal, all float32; codes: (n, words) uint64; the rest (n,) float32.
    """
    factors, bits = frame.shape
    A, Y = np.empty(bits, np.float32), np.empty(bits, np.float32)
    signs, after = np.empty(bits, np.float32), np.empty(bits, np.float32)
    after_bits = after.view(np.int32)
    unit = np.empty(factors, np.float32)
    image = np.empty(columns.shape[1], np.float32)
    for i in range(vectors.shape[0]):
        norms[i] = _normalize(vectors[i], unit)
        A[:] = _ZERO
        _add_rows(A, unit, frame)
        for j in range(bits):
            signs[j] = np.float32(1) if A[j] >= _ZERO else np.float32(-1)
        image[:] = _ZERO
        _add_rows(image, signs, columns)
        Y[:] = _ZERO
        _add_rows(Y, image[:factors], frame)
        num, den = _ZERO, _ZERO
        for k in range(factors):
            num += unit[k] * image[k]
            den += image[k] * image[k]
        now = num * num / den if num > _ZERO and den > _SMALLEST else _ZERO
        for _ in range(flips):
            _candidates(num, den, signs, A, Y, diagonal, after)
            # Floats from zero up are ordered like their bits, and a maximum of integers vectorises.
            most = np.int32(0)
            for j in range(bits):
                most = max(most, after_bits[j])
            j = 0
            while after_bits[j] != most:
                j += 1
            if after[j] <= now * _GAIN:
                break
            num -= _TWO * signs[j] * A[j]
            den += _FOUR * (diagonal[j] - signs[j] * Y[j])
            step, row = -_TWO * signs[j], gram[j]
            for k in range(bits):
                Y[k] += step * row[k]
            signs[j] = -signs[j]
            now = after[j]
        for w in range(codes.shape[1]):
            word = np.uint64(0)
            for j in range(64 * w, min(64 * w + 64, bits)):
                word |= np.uint64(signs[j] > _ZERO) << np.uint64(j - 64 * w)
            codes[i, w] = word
        lengths[i] = np.sqrt(max(den, _ZERO))
        objectives[i] = np.sqrt(now)


@njit(cache=True, nogil=True)
def from_codes(codes, query, norms, biases, cosines, out):
    """Write bias + norm * cosines[Hamming distance to `query`] of the first `out.size` rows.

    codes: (words, capacity) uint64, so that the loop runs over rows; cosines: (L + 1,) float32.
    """
    distances = np.empty(_BLOCK, np.uint64)
    for start in range(0, out.size, _BLOCK):
        m = min(_BLOCK, out.size - start)
        for i in range(m):
            distances[i] = np.uint64(0)
        for w in range(codes.shape[0]):
            word, column = query[w], codes[w, start : start + m]
            for i in range(m):
                distances[i] += ones(column[i] ^ word)
        part, norm, bias = out[start : start + m], norms[start : start + m], biases[start : start + m]
        for i in range(m):
            part[i] = bias[i] + norm[i] * cosines[distances[i]]


@njit(cache=True, nogil=True)
def byte_sums(projection, sums):
    """Write, for each byte of a code and each of its 256 values, the sum of +-projection over its bits.

    projection W'p: (L,) float32, read as zero past its end; sums: (8 * words, 256) float32.
    """
    for byte in range(sums.shape[0]):
        total = np.float32(0)
        for j in range(8 * byte, min(8 * byte + 8, projection.size)):
            total -= projection[j]
        sums[byte, 0] = total
        size = 1
        for bit in range(8):
            j = 8 * byte + bit
            step = _TWO * projection[j] if j < projection.size else _ZERO
            for value in range(size):
                sums[byte, size + value] = sums[byte, value] + step
            size *= 2


@njit(cache=True, nogil=True)
def from_projection(codes, rows, sums, scales, biases, out):
    """Write bias + scale * p'Wb of `rows`, p'Wb being one looked-up sum per byte of the code."""
    for i in range(rows.size):
        row = rows[i]
        even, odd = _ZERO, _ZERO
        for w in range(codes.shape[0]):
            word = codes[w, row]
            # Two chains of additions: one would wait for itself.
            for byte in range(0, 8, 2):
                low = (word >> np.uint64(8 * byte)) & np.uint64(255)
                high = (word >> np.uint64(8 * byte + 8)) & np.uint64(255)
                even += sums[8 * w + byte, low]
                odd += sums[8 * w + byte + 1, high]
        out[i] = biases[row] + scales[row] * (even + odd)

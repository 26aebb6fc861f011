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

Two estimates of a score b + |q| |p| cos, from the code of q with its length and bias beside it:

    from two codes     cos = cos(pi * Hamming / L)                            (2.19)
    from p and a code  cos = p'Wb / (|p| |Wb| L(b)): (5.14), freed of the shrinkage L(b) of the code
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.machine.wide_integers import popcount

_BLOCK = 512
_TWO, _FOUR, _ZERO = np.float32(2), np.float32(4), np.float32(0)
_SIN_1, _SIN_3, _SIN_5 = np.float32(1.570320), np.float32(-0.642113), np.float32(0.071861)
_SMALLEST = np.float32(1e-9)
# A flip must gain more than a rounding error of float32, or two bits could flip back and forth.
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
def encode(
    vectors, frame, columns, gram, diagonal, flips, starts, codes, norms, lengths, objectives
):
    """Write the code of each vector's direction, |vector|, |Wb| and L(b).

    vectors: (n, d); frame W: (d, L); columns W': (L, d or more), zeros past d, so that SIMD
    registers are full; gram G: (L, L) and its diagonal, all float32; codes: (n, words) uint64; the
    rest (n,) float32. `starts` is at most 2^L.
    """
    factors, bits = frame.shape
    A, Y = np.empty(bits, np.float32), np.empty(bits, np.float32)
    signs, after = np.empty(bits, np.float32), np.empty(bits, np.float32)
    after_bits = after.view(np.int32)
    unit = np.empty(factors, np.float32)
    image = np.empty(columns.shape[1], np.float32)
    count = 0
    while 1 << count < starts:
        count += 1
    uncertain = np.empty(count, np.int64)
    for i in range(vectors.shape[0]):
        norms[i] = _normalize(vectors[i], unit)
        A[:] = _ZERO
        _add_rows(A, unit, frame)
        _least_certain(A, uncertain)
        for start in range(starts):
            for j in range(bits):
                signs[j] = np.float32(1) if A[j] >= _ZERO else np.float32(-1)
            for place in range(count):
                if (start >> place) & 1:
                    signs[uncertain[place]] = -signs[uncertain[place]]
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
                # Floats from zero up are ordered like their bits, and a maximum of integers
                # vectorises.
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
            if start == 0 or now > objectives[i]:
                _pack(signs, codes[i])
                lengths[i] = np.sqrt(max(den, _ZERO))
                objectives[i] = now
        objectives[i] = np.sqrt(objectives[i])


@njit(cache=True, nogil=True)
def _pack(signs, words):
    """Write the words of a code."""
    for w in range(words.size):
        word = np.uint64(0)
        for j in range(64 * w, min(64 * w + 64, signs.size)):
            word |= np.uint64(signs[j] > _ZERO) << np.uint64(j - 64 * w)
        words[w] = word


@njit(cache=True, nogil=True)
def _distances(codes, query, start, out):
    """Write the Hamming distances to `query` of the codes from `start` on, four words at a time."""
    stop = start + out.size
    out[:] = 0
    w = 0
    while w + 4 <= query.size:
        q0, q1, q2, q3 = query[w], query[w + 1], query[w + 2], query[w + 3]
        c0, c1 = codes[w, start:stop], codes[w + 1, start:stop]
        c2, c3 = codes[w + 2, start:stop], codes[w + 3, start:stop]
        for i in range(out.size):
            first = popcount(c0[i] ^ q0) + popcount(c1[i] ^ q1)
            out[i] += np.int32(first + popcount(c2[i] ^ q2) + popcount(c3[i] ^ q3))
        w += 4
    while w < query.size:
        q0, c0 = query[w], codes[w, start:stop]
        for i in range(out.size):
            out[i] += np.int32(popcount(c0[i] ^ q0))
        w += 1


@njit(cache=True, nogil=True)
def from_codes(codes, query, bits, norms, biases, length, out):
    """Write bias + length * norm * cos(pi * Hamming / bits) of the first `out.size` rows.

    codes: (words, capacity) uint64, so that the loop runs over rows; query: (words,) uint64;
    norms, biases: float32. The cosine is a polynomial, off by at most 1e-4: a look-up would not
    vectorise.
    """
    scratch = np.empty(_BLOCK, np.int32)
    step = np.float32(2.0 / bits)
    for start in range(0, out.size, _BLOCK):
        part = out[start : min(start + _BLOCK, out.size)]
        stop = start + part.size
        distances, norm, bias = scratch[: part.size], norms[start:stop], biases[start:stop]
        _distances(codes, query, start, distances)
        for i in range(part.size):
            # cos(pi h / L) = sin(pi x / 2) with x = 1 - 2 h / L
            x = np.float32(1) - np.float32(distances[i]) * step
            y = x * x
            cosine = x * (_SIN_1 + y * (_SIN_3 + y * _SIN_5))
            part[i] = bias[i] + length * norm[i] * cosine


@njit(cache=True, nogil=True)
def byte_sums(projection, sums):
    """Write the sum of +-projection over the bits of each byte of a code, for all its 256 values.

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

"""A scan of qoLSH codes with the selection fused into it (Balu 2016, chapter 5).

Two estimates of a score b + |q| |p| cos, from the code of q with its length and bias beside it:

    from two codes     cos = cos(pi * Hamming / L)                            (2.19)
    from p and a code  cos = p'Wb / (|p| |Wb| L(b)): (5.14), freed of the shrinkage L(b) of the code

    1  the first estimate of every row, 40 bytes a row at L = 256, compared with a threshold
    2  of the rows that reach it, the best `shortlist` by it
    3  of those the best `narrowed` by the second estimate, where that is fewer
    4  their exact scores, in the order of additions of `exact_scan.py`, and the best `count`

No estimate of a row below the threshold leaves the first cache. The threshold comes from a sample
of runs of rows, and only saves time: where too few rows reach it, a lower one is tried. The best
are found by bisection for the last score among them, sixteen comparisons at once: a quickselect
guesses half its branches wrong. Rows that tie with the last one are kept, too, until they are as
many again. A score that overflows counts as the highest.

codes: (words, capacity) uint64, so that loops run over rows;  query: (words,) uint64;  norms |q|,
biases, scales |q| / (|Wb| L(b)): float32;  length |p|;  vectors: (n * d + ROOM,) float32, flat;
vector p: (d,) float32.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.machine.lanes import above, as_bits, load, spread
from stream_app.kernels.machine.scalars import popcount
from stream_app.kernels.retrieval.pca_scan import exact
from stream_app.kernels.retrieval.top_k import ordered, partition, tie

_BLOCK = 512
_RUN, _MOST_RUNS = 64, 128
SAMPLE = _RUN * _MOST_RUNS
ROOM = _LANES = 16
_GROUPS = _BLOCK // _LANES
_USUAL = 3
_ALL = np.uint64(2**_LANES - 1)
_INFINITE = 0x7F800000  # the bits of infinity
_NEAR = 1 << 12  # 2^-11 of a number
_ZERO, _ONE, _TWO = np.float32(0), np.float32(1), np.float32(2)
_SIN_1, _SIN_3, _SIN_5 = np.float32(1.570320), np.float32(-0.642113), np.float32(0.071861)


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
def from_codes(codes, query, bits, norms, biases, length, start, distances, out):
    """Write bias + length * norm * cos(pi * Hamming / bits) of `out.size` rows from `start` on.

    distances: int32 scratch, as long as `out`. The cosine is a polynomial, off by at most 1e-4: a
    look-up would not vectorise.
    """
    _distances(codes, query, start, distances)
    step = np.float32(2.0 / bits)
    norm, bias = norms[start : start + out.size], biases[start : start + out.size]
    for i in range(out.size):
        # cos(pi h / L) = sin(pi x / 2) with x = 1 - 2 h / L
        x = _ONE - np.float32(distances[i]) * step
        y = x * x
        cosine = x * (_SIN_1 + y * (_SIN_3 + y * _SIN_5))
        out[i] = bias[i] + length * norm[i] * cosine


@njit(cache=True, nogil=True)
def _reaching(estimates, first, least):
    """Return a word whose bit i says whether lane i from `first` on is at least `least`, or NaN."""
    return ~as_bits(above(spread(least), load(estimates, first))) & _ALL


@njit(cache=True, nogil=True)
def _sampled(codes, query, bits, norms, biases, length, size, sample):
    """Write estimates of runs of rows all over the catalogue, and return how many."""
    runs = size // _RUN
    taken = min(_MOST_RUNS, max(runs // 24, min(runs // 4, 24)))
    distances = np.empty(_RUN, np.int32)
    for t in range(taken):
        out = sample[t * _RUN : t * _RUN + _RUN]
        start = t * runs // taken * _RUN
        from_codes(codes, query, bits, norms, biases, length, start, distances, out)
    return taken * _RUN


@njit(cache=True, nogil=True)
def _threshold(values, many, rank, near):
    """Return the `rank` highest of the values, or a number below it that is nearly as high: `near`
    is 1 for the number itself. values: (a multiple of 16 >= many,), minus infinity from `many` on;
    `rank` is at most `many`."""
    bits = np.empty(1, np.int32)
    value = bits.view(np.float32)
    # In the order of `top_k.ordered`.
    low, high = 2**31 - 1 - _INFINITE, 2**31 + _INFINITE + 1
    while high - low > near:
        middle = (low + high) // 2
        x = middle - 2**31
        bits[0] = x if x >= 0 else x ^ (2**31 - 1)
        reached = 0
        for i in range(0, many, _LANES):
            reached += np.int64(popcount(_reaching(values, i, value[0])))
        if reached >= rank:
            low = middle
        else:
            high = middle
    x = low - 2**31
    bits[0] = x if x >= 0 else x ^ (2**31 - 1)
    return value[0]


@njit(cache=True, nogil=True)
def _key(score, bits, row, salt):
    """Return the key of `top_k.py`, where what overflowed is infinite."""
    high = ordered(bits) if score == score else np.uint64(2**31 + _INFINITE)
    return (high << np.uint64(32)) | tie(row, salt)


@njit(cache=True, nogil=True)
def highest(values, many, rank, rows, salt, places):
    """Write the places of the `rank` highest values, in rising order; return how many there are:
    more, up to twice the rank, where others tie with the last. values: (>= many + 16,) float32, of
    which those from `many` on are overwritten; rows: the names of the values."""
    if many <= rank:
        for i in range(many):
            places[i] = i
        return many
    values[many : many + _LANES] = -np.inf
    least = _threshold(values, many, rank, 1)
    found = 0
    for i in range(many):
        places[found] = i
        found += np.int64(not values[i] < least)
    if found <= 2 * rank:
        return found
    bits, keys = values.view(np.int32), np.empty(found, np.uint64)
    for i in range(found):
        keys[i] = _key(values[places[i]], bits[places[i]], rows[places[i]], salt)
    best = keys.copy()
    partition(best, places[:found].copy(), found, rank)
    last = best[:rank].min()
    kept = 0
    for i in range(found):
        places[kept] = places[i]
        kept += np.int64(keys[i] >= last)
    return kept


@njit(cache=True, nogil=True)
def candidates(codes, query, bits, norms, biases, length, size, least, rows, values):
    """Write the rows whose estimates reach `least`, and the estimates; return how many.

    rows, values: (>= size + ROOM,), written up to ROOM places beyond what is returned.
    """
    # A word without a bit left names lane 64.
    distances, estimates = np.empty(_BLOCK, np.int32), np.empty(_BLOCK + 64, np.float32)
    groups, words = np.empty(_GROUPS + 1, np.int64), np.empty(_GROUPS + 1, np.uint64)
    found = 0
    for start in range(0, size, _BLOCK):
        n = min(_BLOCK, size - start)
        out = estimates[:n]
        from_codes(codes, query, bits, norms, biases, length, start, distances[:n], out)
        estimates[n:] = -np.inf
        hits = 0
        for first in range(0, n, _LANES):
            reached = _reaching(estimates, first, least)
            if n - first < _LANES:
                reached &= (np.uint64(1) << np.uint64(n - first)) - np.uint64(1)
            groups[hits], words[hits] = first, reached
            hits += np.int64(reached != 0)  # a branch would be guessed
        for h in range(hits):
            first, reached = groups[h], words[h]
            many = np.int64(popcount(reached))
            k = 0
            # Mostly at most three: written without a branch, whether they are there or not.
            while k < _USUAL or k < many:
                i = first + np.int64(popcount((reached & (~reached + np.uint64(1))) - np.uint64(1)))
                rows[found + k], values[found + k] = start + i, estimates[i]
                reached &= reached - np.uint64(1)
                k += 1
            found += many
    return found


@njit(cache=True, nogil=True)
def _keep(rows, places, found):
    """Move the rows at `places`, which rise, to the front."""
    for i in range(found):
        rows[i] = rows[places[i]]


@njit(cache=True, nogil=True)
def shortlisted(
    codes, query, bits, norms, biases, length, size, shortlist, salt, sample, rows, places, values
):
    """Write the `shortlist` best rows by the first estimate; return how many, as `highest`."""
    sampled = _sampled(codes, query, bits, norms, biases, length, size, sample)
    # A few more than the share of the rank, so that few samples do not decide.
    rank = np.int64(1.25 * shortlist * sampled / size) + 12
    while True:
        least = np.float32(-np.inf)
        if 2 * rank < sampled:
            least = _threshold(sample, sampled, rank, _NEAR)
        many = candidates(codes, query, bits, norms, biases, length, size, least, rows, values)
        if many >= min(shortlist, size):
            break
        rank *= 8
    found = highest(values, many, shortlist, rows, salt, places)
    _keep(rows, places, found)
    return found


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


@njit(cache=True, nogil=True)
def search(
    codes, query, bits, norms, biases, length, scales, sums, size, shortlist, narrowed, count,
    vectors, vector, salt, sample, rows, places, keys, scores,
):  # fmt: skip
    """Write the rows that are scored exactly, their scores, the places of the `count` best of them
    and the keys of those (`top_k.py`); return how many were scored, and how many keys there are:
    more than `count`, up to twice as many, where others tie with the last.

    sums: of `byte_sums`, read where `narrowed` is less than `shortlist`;  sample: (SAMPLE,)
    float32;  rows, places int64, keys uint64, scores float32: (>= size + 16,).
    """
    if shortlist < size:
        many = shortlisted(
            codes, query, bits, norms, biases, length, size, shortlist, salt, sample, rows, places,
            scores,
        )  # fmt: skip
    else:
        many = size
        for i in range(size):
            rows[i] = i
    if narrowed < many:
        from_projection(codes, rows[:many], sums, scales, biases, scores)
        many = highest(scores, many, narrowed, rows, salt, places)
        _keep(rows, places, many)
    exact(vectors, vector.size, biases, rows, many, vector, salt, scores, keys)
    found = highest(scores, many, count, rows, salt, places)
    bits_of = scores.view(np.int32)
    for i in range(found):
        place = places[i]
        keys[i] = _key(scores[place], bits_of[place], rows[place], salt)
    return many, found

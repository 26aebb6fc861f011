"""A scan of item vectors in one byte a component, with the selection fused into it.

Vectors are rotated such that the first components carry most of the scores (principal axes of the
items). Items lie in slots, in groups of 32; of slot s = 32 g + i,

    coarse[g, c, i]         component c, or the bias for c = COARSE, as int8 in units of its own
    fine[g, c, i]           component COARSE + c
    estimate(s)             sum of weight * code, int16: sum |weight| <= 258, so nothing overflows

    1  the groups that can hold a coarse estimate of at least a threshold, by the largest bias b and
       the largest length |x| in each: w_b b + |w| |x| (Cauchy, Schwarz), 8 bytes a group
    2  an estimate of their items from bias and COARSE components, 9 bytes an item
    3  where an item reaches the threshold, the estimate of its group from the other components, too
    4  of the items that reach a second threshold, the best by their estimate, if there are many
    5  their exact scores, in the order of additions of `exact_scan.py`, and those of each item with
       a number that no byte holds

The thresholds come from a sample of groups. Whatever they are, the scores are exact: a threshold
too high is found out and the search goes over all items. Integers are the same on every machine.

coarse: flat (groups, 1 + COARSE, 32) int8;  fine: flat (groups, FINE, 32) int8;  top_biases,
top_lengths: (>= groups, a multiple of 16) float32;  names: (slots,) int32, the row in each slot;
weights: (1 + COARSE + FINE,) int16;  vectors: flat (n, d) float32;  biases: (n,) float32;  vector
p: (d,) float32.
"""

from __future__ import annotations

import numpy as np
from numba import literal_unroll, njit

from stream_app.kernels.machine import lanes
from stream_app.kernels.machine.memory import prefetch
from stream_app.kernels.machine.scalars import popcount
from stream_app.kernels.machine.short_lanes import (
    add,
    load,
    load_bytes,
    multiply,
    reaching,
    spread,
    store,
)
from stream_app.kernels.retrieval.top_k import ordered, partition, shortened, tie

GROUP = 32
COARSE, FINE = 8, 8
COLUMNS = 1 + COARSE + FINE
MOST_WEIGHT = 258  # 258 * 127 < 2^15
SAMPLED_GROUPS = 256
_AHEAD = 64  # groups whose second estimates are asked for before they are read
_ROWS_AHEAD, _LINE = 48, 16  # rows whose vectors are asked for, floats in a cache line
_LANE_NUMBERS = tuple(range(lanes.LANES))
_MANY_TIMES = 4  # so many times too many rows are worth a selection before they are sorted
_BOUNDED = 1024  # groups that are bounded before any of them is read; a multiple of 16
_COARSE_TIMES = 3  # so many times the shortlist pass by the first estimate
_LOWEST = -(2**15)
_NEARLY = 16
_COARSE_BYTES, _FINE_BYTES = GROUP * (1 + COARSE), GROUP * FINE


@njit(cache=True, nogil=True)
def weigh(vector, axes, scales, weights):
    """Write what a unit of each byte counts, in whole numbers of at most MOST_WEIGHT together, into
    weights (COLUMNS,) int16; axes: flat (d, COARSE + FINE) float32, scales: (COLUMNS,) float32."""
    units = np.zeros(COLUMNS)
    total = 0.0
    for c in range(COLUMNS):
        if scales[c] > 0:
            along = 1.0
            if c != COARSE:
                axis = c - np.int64(c > COARSE)
                along = 0.0
                for k in range(vector.size):
                    along += np.float64(vector[k]) * np.float64(axes[k * (COARSE + FINE) + axis])
            units[c] = along / np.float64(scales[c])
            total += abs(units[c])
    # Rounding to nearest may add half a unit a column.
    scale = (MOST_WEIGHT - 0.5 * COLUMNS) / total if total > 0.0 else 0.0
    for c in range(COLUMNS):
        weights[c] = np.int16(np.rint(units[c] * scale)) if total < np.inf else np.int16(0)


@njit(cache=True, nogil=True, inline="always")
def _spread_weights(weights):
    """Return every weight in all lanes."""
    return (
        (
            spread(weights[0]), spread(weights[1]), spread(weights[2]), spread(weights[3]),
            spread(weights[4]), spread(weights[5]), spread(weights[6]), spread(weights[7]),
            spread(weights[8]),
        ),
        (
            spread(weights[9]), spread(weights[10]), spread(weights[11]), spread(weights[12]),
            spread(weights[13]), spread(weights[14]), spread(weights[15]), spread(weights[16]),
        ),
    )  # fmt: skip


@njit(cache=True, nogil=True, inline="always")
def _estimate(codes, first, w):
    """Return the sum of eight columns of a group, times their weights."""
    a = add(multiply(load_bytes(codes, first), w[0]), multiply(load_bytes(codes, first + 32), w[1]))
    b = add(
        multiply(load_bytes(codes, first + 64), w[2]), multiply(load_bytes(codes, first + 96), w[3])
    )
    c = add(
        multiply(load_bytes(codes, first + 128), w[4]),
        multiply(load_bytes(codes, first + 160), w[5]),
    )
    d = add(
        multiply(load_bytes(codes, first + 192), w[6]),
        multiply(load_bytes(codes, first + 224), w[7]),
    )
    return add(add(a, b), add(c, d))


@njit(cache=True, nogil=True, inline="always")
def _coarse_estimate(coarse, g, w):
    """Return the estimate of group g by bias and the first components."""
    first = g * _COARSE_BYTES
    return add(_estimate(coarse, first, w), multiply(load_bytes(coarse, first + 256), w[8]))


@njit(cache=True, nogil=True)
def _threshold(estimates, groups, rank):
    """Return a number that `rank` of the estimates (groups of 32) reach, within _NEARLY of the
    largest."""
    low, high = np.int64(_LOWEST), np.int64(2**15)
    while high - low > _NEARLY:
        middle = (low + high) // 2
        least = spread(np.int16(middle))
        reached = 0
        for g in range(groups):
            reached += np.int64(popcount(reaching(load(estimates, g * GROUP), least)))
        if reached >= rank:
            low = middle
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def thresholds(coarse, fine, weights, size, shortlist, sample):
    """Return the thresholds of the coarse and of the full estimate for about `shortlist` rows.

    sample: (2, 32 * SAMPLED_GROUPS) int16, for the estimates of the groups that are looked at.
    """
    groups = size // GROUP
    taken = min(SAMPLED_GROUPS, max(groups // 4, min(groups, 32)))
    w, v = _spread_weights(weights)
    for t in range(taken):
        g = t * groups // taken
        estimate = _coarse_estimate(coarse, g, w)
        store(sample[0], t * GROUP, estimate)
        store(sample[1], t * GROUP, add(estimate, _estimate(fine, g * _FINE_BYTES, v)))
    share = taken * GROUP / size
    # A few more than the share of the rank, so that few samples do not decide.
    coarse_rank = np.int64(_COARSE_TIMES * shortlist * share) + 16
    rank = np.int64(1.25 * shortlist * share) + 12
    if coarse_rank >= taken * GROUP:
        return np.int64(_LOWEST), np.int64(_LOWEST)
    return _threshold(sample[0], taken, coarse_rank), _threshold(sample[1], taken, rank)


@njit(cache=True, nogil=True)
def _reachable(top_biases, top_lengths, begin, end, of_bias, of_length, bound, near):
    """Write the groups of begin .. end-1 whose items may have estimates above `bound` into `near`;
    return how many."""
    by_bias, by_length = lanes.spread(of_bias), lanes.spread(of_length)
    least = lanes.spread(bound)
    found = 0
    for first in range(begin, end, lanes.LANES):
        most = lanes.add(
            lanes.multiply(lanes.load(top_biases, first), by_bias),
            lanes.multiply(lanes.load(top_lengths, first), by_length),
        )
        reached = lanes.as_bits(lanes.above(most, least))
        if end - first < lanes.LANES:
            reached &= (np.uint64(1) << np.uint64(end - first)) - np.uint64(1)
        while reached != 0:
            near[found] = first + np.int64(
                popcount((reached & (~reached + np.uint64(1))) - np.uint64(1))
            )
            found += 1
            reached &= reached - np.uint64(1)
    return found


@njit(cache=True, nogil=True)
def candidates(
    coarse, fine, top_biases, top_lengths, names, weights, scales, size, coarse_least, least, rows,
    estimates,
):  # fmt: skip
    """Write the rows whose estimates reach the thresholds, and the estimates; return how many.

    rows int64 and estimates uint64: (>= size,).
    """
    w, v = _spread_weights(weights)
    coarse_bound, bound = spread(np.int16(coarse_least)), spread(np.int16(least))
    length = 0.0
    for c in range(COARSE):
        length += (np.float64(weights[c]) * np.float64(scales[c])) ** 2
    of_bias, of_length = np.float32(weights[COARSE]), np.float32(min(np.sqrt(length), 3e38))
    # One less than the threshold is more than sums of float32 this small are rounded by.
    above = np.float32(coarse_least - 1) if coarse_least > _LOWEST else np.float32(-np.inf)
    estimates_of = np.empty((_AHEAD + 1) * GROUP, np.int16)
    near, hit = np.empty(_BOUNDED, np.int64), np.empty(_AHEAD + 1, np.int64)
    groups = (size + GROUP - 1) // GROUP
    found = 0
    for begin in range(0, groups, _BOUNDED):
        end = min(begin + _BOUNDED, groups)
        many = _reachable(top_biases, top_lengths, begin, end, of_bias, of_length, above, near)
        for first in range(0, many, _AHEAD):
            hits = 0
            for y in range(first, min(first + _AHEAD, many)):
                estimate = _coarse_estimate(coarse, near[y], w)
                store(estimates_of, hits * GROUP, estimate)
                hit[hits] = near[y]
                hits += np.int64(reaching(estimate, coarse_bound) != 0)  # a branch would be guessed
            for x in range(hits):
                for line in range(0, _FINE_BYTES, 64):
                    prefetch(fine, hit[x] * _FINE_BYTES + line)
            for x in range(hits):
                g = hit[x]
                estimate = add(load(estimates_of, x * GROUP), _estimate(fine, g * _FINE_BYTES, v))
                reached = reaching(estimate, bound)
                store(estimates_of, x * GROUP, estimate)
                base = g * GROUP
                if size - base < GROUP:
                    reached &= (np.uint64(1) << np.uint64(size - base)) - np.uint64(1)
                while reached != 0:
                    i = np.int64(popcount((reached & (~reached + np.uint64(1))) - np.uint64(1)))
                    rows[found] = names[base + i]
                    estimates[found] = np.uint64(np.int64(estimates_of[x * GROUP + i]) + 2**15)
                    found += 1
                    reached &= reached - np.uint64(1)
    return found


@njit(cache=True, nogil=True)
def exact(vectors, factors, biases, rows, many, vector, salt, scores, keys):
    """Write the exact scores of rows[:many] and their keys (`top_k.py`), sixteen rows at a time, a
    row a lane, each summed in the order of its components.

    vectors: flat, LANES floats longer than its rows;  rows, scores: room for LANES more than many.
    """
    starts, some = np.empty(lanes.LANES, np.int64), np.empty(lanes.LANES, np.float32)
    for first in range(0, many, lanes.LANES):
        for lane in range(lanes.LANES):
            row = rows[min(first + lane, many - 1)]
            starts[lane] = row * factors
            some[lane] = biases[row]
            ahead = rows[min(first + lane + _ROWS_AHEAD, many - 1)]
            prefetch(biases, ahead)
            for line in range(0, factors, _LINE):
                prefetch(vectors, ahead * factors + line)
        s = lanes.load(some, 0)
        for begin in range(0, factors, lanes.LANES):
            block = lanes.columns(vectors, starts, 0)
            if factors - begin >= lanes.LANES:
                for c in literal_unroll(_LANE_NUMBERS):
                    s = lanes.add(s, lanes.multiply(lanes.spread(vector[begin + c]), block[c]))
            else:
                for c in literal_unroll(_LANE_NUMBERS):
                    if begin + c < factors:
                        s = lanes.add(s, lanes.multiply(lanes.spread(vector[begin + c]), block[c]))
            for lane in range(lanes.LANES):
                starts[lane] += lanes.LANES
        lanes.store(scores, first, s)
    bits = scores.view(np.int32)
    for i in range(many):
        keys[i] = (ordered(bits[i]) << np.uint64(32)) | tie(rows[i], salt)


@njit(cache=True, nogil=True)
def _with_outliers(rows, many, beyond, outliers):
    """Put all outliers behind those of rows[:many] that are none; return how many there are."""
    kept = 0
    for n in range(many):
        rows[kept] = rows[n]
        kept += np.int64(beyond[rows[n]] == 0)
    for n in range(outliers.size):
        rows[kept + n] = outliers[n]
    return kept + outliers.size


@njit(cache=True, nogil=True)
def search(
    coarse, fine, top_biases, top_lengths, names, axes, scales, beyond, outliers, size, shortlist,
    count, vectors, biases, vector, salt, sample, rows, keys, places, scores,
):  # fmt: skip
    """Write the shortlist into `rows`, its exact `scores`, their keys, and into `places` where each
    is; return how many. Where these are many times `count`, keys and places are of the best.

    outliers: (o,) int64, the rows that are scored whatever their estimate is, marked in `beyond`;
    vectors: flat;  sample: (2, 32 * SAMPLED_GROUPS) int16, scratch.
    """
    weights = np.empty(COLUMNS, np.int16)
    weigh(vector, axes, scales, weights)
    coarse_least, least = thresholds(coarse, fine, weights, size, shortlist, sample)
    many = candidates(
        coarse, fine, top_biases, top_lengths, names, weights, scales, size, coarse_least, least,
        rows, keys,
    )  # fmt: skip
    if many < min(shortlist, size):
        many = candidates(
            coarse, fine, top_biases, top_lengths, names, weights, scales, size, _LOWEST, _LOWEST,
            rows, keys,
        )  # fmt: skip
    if many > shortlist + shortlist // 4:
        many = shortened(keys, rows, many, shortlist)
    if outliers.size:
        many = _with_outliers(rows, many, beyond, outliers)
    exact(vectors, vector.size, biases, rows, many, vector, salt, scores, keys)
    for i in range(many):
        places[i] = i
    if count < many // _MANY_TIMES:
        partition(keys, places, many, count)
        return count
    return many

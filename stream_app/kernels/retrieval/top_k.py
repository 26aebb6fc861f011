"""The best `count` of n scores, as a set, in one pass over the scores.

    order   higher score first, ties by the keyed hash tie(row), a bijection of 32 bits
    key     score as an order-preserving uint32, times 2^32, plus tie(row): all keys differ

A threshold from a strided sample leaves about 1.25 `count` candidates, a quickselect the rest. The
sample only saves time: the answer does not depend on it. scores: (n,) float32, none of them
NaN; n < 2^32.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_SAMPLE = 1024
_LANES = 8
_LOWEST = np.int32(-(2**31))
_BINS = 512  # of keys that are counted


@njit(cache=True, nogil=True, inline="always")
def ordered(bits):
    """Return a number that rises with the float32 of these bits (int32)."""
    # The bits of a float, as an integer, rise with it above zero and fall with it below; -0 is 0.
    if bits == _LOWEST:
        return np.uint64(2**31)
    return np.uint64(np.int64(bits ^ ((bits >> np.int32(31)) & np.int32(2**31 - 1))) + 2**31)


@njit(cache=True, nogil=True, inline="always")
def tie(row, salt):
    """Return the keyed hash of a row, by which equal scores are ordered."""
    # murmur3's 32-bit finalizer: a bijection, so two rows never tie.
    x = (np.uint64(row) ^ salt) & np.uint64(0xFFFFFFFF)
    x = ((x ^ (x >> np.uint64(16))) * np.uint64(0x85EBCA6B)) & np.uint64(0xFFFFFFFF)
    x = ((x ^ (x >> np.uint64(13))) * np.uint64(0xC2B2AE35)) & np.uint64(0xFFFFFFFF)
    return x ^ (x >> np.uint64(16))


@njit(cache=True, nogil=True)
def partition(keys, places, size, rank):
    """Reorder both arrays so that the `rank` largest of `size` keys come first: Hoare's select."""
    low, high = 0, size - 1
    while low < high:
        a, b, c = keys[low], keys[(low + high) // 2], keys[high]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = low, high
        while i <= j:
            while keys[i] > pivot:
                i += 1
            while keys[j] < pivot:
                j -= 1
            if i <= j:
                keys[i], keys[j] = keys[j], keys[i]
                places[i], places[j] = places[j], places[i]
                i += 1
                j -= 1
        if rank - 1 <= j:
            high = j
        elif rank - 1 >= i:
            low = i
        else:
            return


@njit(cache=True, nogil=True)
def _threshold(scores, bits, count, places, keys):
    """Return a score that probably `count` reach, minus infinity where a sample is no help."""
    stride = scores.size // _SAMPLE
    if stride < 2:
        return np.float32(-np.inf)
    sample = scores.size // stride
    rank = np.int64(1.25 * count / stride) + 12
    if 2 * rank >= sample:
        return np.float32(-np.inf)
    for i in range(sample):
        places[i] = i * stride
        keys[i] = ordered(bits[i * stride])
    partition(keys, places, sample, rank)
    least = scores[places[0]]
    for i in range(rank):
        least = min(least, scores[places[i]])
    return least


@njit(cache=True, nogil=True)
def _reaching(scores, threshold, places, reached):
    """Write the places of the scores from `threshold` up and return how many."""
    n = scores.size
    padded = -(-n // _LANES) * _LANES
    for i in range(n):
        reached[i] = scores[i] >= threshold
    reached[n:padded] = 0
    # Most groups of eight hold nothing: one look at eight flags at once skips them.
    groups = reached[:padded].view(np.uint64)
    found = 0
    for g in range(groups.size):
        if groups[g] != 0:
            for i in range(_LANES * g, _LANES * g + _LANES):
                places[found] = i
                found += np.int64(reached[i])
    return found


@njit(cache=True, nogil=True)
def top_k(scores, bits, names, count, salt, places, keys, reached):
    """Write the places 0 .. n-1 of the `count` best scores and their keys; return how many.

    bits: `scores` viewed as int32; names: the row of each place, empty where the place is the row;
    places int64, keys uint64, reached uint8: scratch of length n + 8. The order is that of
    falling keys, but the places come unsorted.
    """
    n = scores.size
    count = min(count, n)
    if count <= 0:
        return 0
    found = _reaching(scores, _threshold(scores, bits, count, places, keys), places, reached)
    if found < count:
        found = n
        for i in range(n):
            places[i] = i
    for i in range(found):
        name = names[places[i]] if names.size else places[i]
        keys[i] = (ordered(bits[places[i]]) << np.uint64(32)) | tie(name, salt)
    if count < found:
        partition(keys, places, found, count)
    return count


@njit(cache=True, nogil=True)
def shortened(keys, rows, size, wanted):
    """Move the rows with the highest keys to the front, in their order: at least `wanted` of
    `size`, and what else is in the last of equal intervals; return how many."""
    low, high = keys[0], keys[0]
    for i in range(size):
        low, high = min(low, keys[i]), max(high, keys[i])
    shift, span = np.uint64(0), high - low
    while span >> shift >= np.uint64(_BINS):
        shift += np.uint64(1)
    counts = np.zeros(_BINS, np.int64)
    for i in range(size):
        counts[np.int64((keys[i] - low) >> shift)] += 1
    last, reached = _BINS, 0
    while reached < wanted:
        last -= 1
        reached += counts[last]
    least, kept = low + (np.uint64(last) << shift), 0
    for i in range(size):
        rows[kept] = rows[i]
        kept += np.int64(keys[i] >= least)
    return kept

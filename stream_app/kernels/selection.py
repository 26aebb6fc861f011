"""The best `count` of n scores, as a set, in one pass over the scores.

    order of (score, row):  higher score first, ties by the keyed hash `tie(row)`, a bijection of 32 bits
    key = score as an order-preserving uint32, times 2^32, plus tie(row)           all keys differ

A threshold from a strided sample leaves about 1.5 `count` candidates, a quickselect the rest. The
sample only saves time: the answer is the same whatever it says. scores: (n,) float32 seen as int32,
finite; n < 2^32.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_SAMPLE = 1024
_BLOCK = 64
_LOWEST = np.int32(-(2**31))


@njit(cache=True, nogil=True, inline="always")
def _ordered(bits):
    # The bits of a float, read as an integer, rise with it above zero and fall with it below; -0 is 0.
    if bits == _LOWEST:
        return np.int32(0)
    return np.int32(bits ^ ((bits >> np.int32(31)) & np.int32(0x7FFFFFFF)))


@njit(cache=True, nogil=True, inline="always")
def _tie(row, salt):
    # murmur3's 32-bit finalizer: a bijection, so two rows never tie.
    x = (np.uint64(row) ^ salt) & np.uint64(0xFFFFFFFF)
    x = ((x ^ (x >> np.uint64(16))) * np.uint64(0x85EBCA6B)) & np.uint64(0xFFFFFFFF)
    x = ((x ^ (x >> np.uint64(13))) * np.uint64(0xC2B2AE35)) & np.uint64(0xFFFFFFFF)
    return x ^ (x >> np.uint64(16))


@njit(cache=True, nogil=True)
def _partition(keys, places, size, rank):
    """Reorder both arrays so that the `rank` largest of the first `size` keys come first."""
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
def _threshold(bits, count):
    """Return a score, in ordered form, above which there are probably at least `count`."""
    n = bits.size
    stride = n // _SAMPLE
    sample = n // stride if stride else 0
    rank = np.int64(1.25 * count * sample / n) + 12
    if rank * 2 >= sample:
        return _LOWEST
    keys = np.empty(sample, np.uint64)
    places = np.empty(sample, np.int64)
    for i in range(sample):
        keys[i] = np.uint64(np.int64(_ordered(bits[i * stride])) + np.int64(2**31))
    _partition(keys, places, sample, rank)
    least = keys[0]
    for i in range(rank):
        least = min(least, keys[i])
    return np.int32(np.int64(least) - np.int64(2**31))


@njit(cache=True, nogil=True)
def _above(bits, threshold, places):
    """Write the places of the scores from `threshold` up, in order, and return how many."""
    n = bits.size
    found = 0
    for start in range(0, n, _BLOCK):
        part = bits[start : start + _BLOCK]
        most = _LOWEST
        for i in range(part.size):
            most = max(most, _ordered(part[i]))
        if most < threshold:
            continue
        for i in range(part.size):
            if _ordered(part[i]) >= threshold:
                places[found] = start + i
                found += 1
    return found


@njit(cache=True, nogil=True)
def best(bits, names, count, salt, places, keys):
    """Write the places 0 .. n-1 of the `count` best scores and their keys, unsorted; return how many.

    bits: the (n,) float32 scores viewed as int32; names: the row of each place, empty where the place
    is the row; places, keys: scratch of length n. Sorting by falling key puts the best first.
    """
    n = bits.size
    count = min(count, n)
    if count <= 0:
        return 0
    threshold = _threshold(bits, count)
    found = _above(bits, threshold, places)
    if found < count:
        found = n
        for i in range(n):
            places[i] = i
    for i in range(found):
        upper = np.uint64(np.int64(_ordered(bits[places[i]])) + np.int64(2**31))
        name = names[places[i]] if names.size else places[i]
        keys[i] = (upper << np.uint64(32)) | _tie(name, salt)
    if count < found:
        _partition(keys, places, found, count)
    return count

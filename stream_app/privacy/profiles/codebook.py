"""Public codebooks of compact profiles: the bits and the signs of an item.

    mix      splitmix64's finalizer: x ^= x >> 30; x *= 0xbf58476d1ce4e5b9; x ^= x >> 27;
             x *= 0x94d049bb133111eb; x ^= x >> 31                    (arithmetic modulo 2^64)
    word     w_i(j) = mix(mix(j + salt) + i * 0x9e3779b97f4a7c15)     i = 1, 2, ...
    bits     h_i(j) = floor((w_i(j) >> 32) * L / 2^32)                i = 1 .. K, salt "BLIP"
    signs    X_j(l) = +1 where bit l mod 64 of w_(1 + l div 64)(j) is set, else -1, salt "JLT"
    order    items by w_1(j), the smallest first                      salt "MOST"

j is the 64-bit key of an item and L the length of a profile; a salt is the name's ASCII bytes read
as a big-endian number. The codeword of a Bloom profile is the set {h_1(j) .. h_K(j)} (Balu 2016,
eq. 3.1): K positions, fewer if some coincide. The codeword of a projection is a vector of L signs,
which divided by sqrt(L) has length exactly 1 (Achlioptas 2003); normal components have it only on
average.

The order decides which items a capped profile keeps. It is the same for all devices, so two capped
profiles are samples of which the same items come first, as in bottom-k sketches (Cohen and Kaplan
2007), and what they have in common estimates what the whole profiles have.

Integer arithmetic only, so every implementation on every machine has the same codebook, without a
table of items x L. The codebook is public: no privacy argument may assume that it is secret.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
BLIP_SALT = int.from_bytes(b"BLIP", "big")
JLT_SALT = int.from_bytes(b"JLT", "big")
MOST_SALT = int.from_bytes(b"MOST", "big")


def words(items: NDArray[np.uint64], count: int, salt: int) -> NDArray[np.uint64]:
    """Return the first `count` words of each item key (c,), shape (c, count)."""
    # numpy arrays of unsigned integers wrap silently: arithmetic modulo 2^64.
    begins = _mix(np.asarray(items, np.uint64) + np.array([salt], np.uint64))
    return _mix(begins[:, None] + np.arange(1, count + 1, dtype=np.uint64) * _GOLDEN)


def addresses(items: NDArray[np.uint64], hashes: int, length: int) -> NDArray[np.int64]:
    """Return h_1 .. h_K of each item key (c,), shape (c, hashes); some may be equal."""
    upper = words(items, hashes, BLIP_SALT) >> np.uint64(32)
    return (upper * np.uint64(length) >> np.uint64(32)).astype(np.int64)


def positions(
    items: NDArray[np.uint64], hashes: int, length: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return (found, starts): the distinct positions of all items, concatenated, and their starts.

    The positions of item i of (c,) are `found[starts[i] : starts[i + 1]]`, ascending; `starts` has
    shape (c + 1,).
    """
    sorted_ = np.sort(addresses(items, hashes, length), axis=1)
    first = np.ones(sorted_.shape, np.bool_)
    first[:, 1:] = sorted_[:, 1:] != sorted_[:, :-1]
    starts = np.zeros(len(sorted_) + 1, np.int64)
    np.cumsum(first.sum(axis=1), out=starts[1:])
    return sorted_[first], starts


def first_items(items: NDArray[np.uint64], most: int) -> NDArray[np.uint64]:
    """Return the `most` of distinct item keys (c,) that come first in the public order, or all."""
    if len(items) <= most:
        return items
    order = words(items, 1, MOST_SALT)[:, 0]
    return items[np.lexsort((items, order))[:most]]


def signs(items: NDArray[np.uint64], length: int) -> NDArray[np.int8]:
    """Return the sign vector of each item key (c,), shape (c, length), of -1 and +1."""
    drawn = words(items, -(-length // 64), JLT_SALT).astype("<u8", copy=False)
    bits = np.unpackbits(drawn.view(np.uint8), axis=1, bitorder="little", count=length)
    return (2 * bits.astype(np.int8) - 1).astype(np.int8)


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = (x ^ (x >> np.uint64(30))) * _M1
    x = (x ^ (x >> np.uint64(27))) * _M2
    return x ^ (x >> np.uint64(31))

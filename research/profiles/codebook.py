"""Public codebooks of compact profiles: the bits and the signs of an item.

    word     w_i(j) = mix(mix(j + salt) + i * 0x9e3779b97f4a7c15), i = 1, 2, ...   (`item_sampling`)
    bits     h_i(j) = floor((w_i(j) >> 32) * L / 2^32)                i = 1 .. K, salt "BLIP"
    signs    X_j(l) = +1 where bit l mod 64 of w_(1 + l div 64)(j) is set, else -1, salt "JLT"

j is the 64-bit key of an item and L the length of a profile; a salt is the name's ASCII bytes read
as a big-endian number. The codeword of a Bloom profile is the set {h_1(j) .. h_K(j)} (Balu 2016,
eq. 3.1): K positions, fewer if some coincide. The codeword of a projection is a vector of L signs,
which divided by sqrt(L) has length exactly 1 (Achlioptas 2003); normal components have it only on
average.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.privacy.ratings.item_sampling import words

BLIP_SALT = int.from_bytes(b"BLIP", "big")
JLT_SALT = int.from_bytes(b"JLT", "big")


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


def signs(items: NDArray[np.uint64], length: int) -> NDArray[np.int8]:
    """Return the sign vector of each item key (c,), shape (c, length), of -1 and +1."""
    drawn = words(items, -(-length // 64), JLT_SALT).astype("<u8", copy=False)
    bits = np.unpackbits(drawn.view(np.uint8), axis=1, bitorder="little", count=length)
    return (2 * bits.astype(np.int8) - 1).astype(np.int8)

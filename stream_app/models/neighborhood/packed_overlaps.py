"""Overlaps and readings of packed Bloom profiles, from counts of bits instead of coordinates.

With x = (bit - p) / (1 - 2p) and n_a, n_b, n_ab the ones of a, of b, and of both, over L bits:

    mean x_a       = (n_a - p L) / (L (1 - 2p))
    mean x_a x_b   = (n_ab - p (n_a + n_b) + p^2 L) / (L (1 - 2p)^2)

so the estimate of |A and B| (`privacy/profiles/blip.py`) needs one AND and one count a pair: 10,000
profiles of 5,000 bits are 6 MB instead of 200 MB.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from stream_app.privacy.profiles.blip import Blip
from stream_app.privacy.profiles.codebook import positions

_ONES = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1, dtype=np.uint8)


def ones(packed: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the number of ones in each row of (m, bytes), shape (m,)."""
    return np.asarray(_ONES[packed].sum(axis=1, dtype=np.int64), np.int64)


def overlaps(
    mechanism: Blip, first: NDArray[np.uint8], second: NDArray[np.uint8]
) -> NDArray[np.float64]:
    """Return |A and B| of every pair of packed profiles (m, bytes) and (n, bytes), shape (m, n)."""
    length, p = mechanism.length, float(mechanism.flip)
    of_first, of_second = ones(first), ones(second)
    both = np.stack([ones(second & row) for row in first]).astype(np.float64)
    means = [(count - p * length) / (length * (1 - 2 * p)) for count in (of_first, of_second)]
    sums = of_first[:, None] + of_second
    shared = (both - p * sums + p * p * length) / (length * (1 - 2 * p) ** 2)
    least = 1 / length
    za, zb = 1 - means[0], 1 - means[1]
    union = np.maximum(za[:, None] + zb - 1 + shared, least)
    apart = np.maximum(za, least)[:, None] * np.maximum(zb, least)
    log_kept = mechanism.hashes * math.log1p(-1 / length)
    return np.asarray(np.log(apart / union) / log_kept, np.float64)


def read(
    mechanism: Blip, evidence: NDArray[np.float32], items: NDArray[np.uint64]
) -> NDArray[np.float32]:
    """Return evidence (m, L) @ probes of the item keys (n,), shape (m, n): a mean over the bits of
    each item, without a matrix of L rows."""
    if not len(items):
        return np.zeros((len(evidence), 0), np.float32)
    found, starts = positions(items, mechanism.hashes, mechanism.length)
    sums = np.add.reduceat(evidence[:, found].astype(np.float64), starts[:-1], axis=1)
    return np.asarray(sums / np.diff(starts), np.float32)

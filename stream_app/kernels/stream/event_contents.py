"""A 32-bit digest of the contents of each event, so that a number used twice is recognised.

    h <- salt + epoch;   for each rating  h <- hash64(hash64(h + item) + channel * 256 + report)
    digest = upper half of h, 1 where that is 0

Two encodings of one event have one digest. Different contents share one by a chance of 2^-32. The
hash is no secret: who writes events can craft two of one digest, and gains nothing by it.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.machine.hashing import hash64


@njit(cache=True, nogil=True)
def digest_events(epochs, counts, items, reports, channels, salt, digests):
    """Write the digest of each of n events into `digests` (n,) uint32; the columns of the ratings
    are as long as the sum of counts (n,)."""
    at = 0
    for i in range(counts.size):
        h = salt + np.uint64(epochs[i])
        for _ in range(counts[i]):
            low = (np.uint64(channels[at]) << np.uint64(8)) + np.uint64(reports[at])
            h = hash64(hash64(h + items[at]) + low)
            at += 1
        digests[i] = max(np.uint32(h >> np.uint64(32)), np.uint32(1))

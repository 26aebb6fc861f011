"""What a replica computes from the columns of a batch before it learns.

    digest_events   a 32-bit digest of the contents of each event: a number used twice is recognised
                    h <- salt + epoch;  for each rating
                    h <- hash64(hash64(h + item) + channel * 256 + report)
                    digest = upper half of h, 1 where that is 0
    held_out        a keyed fraction of the (user, item) pairs, the same on every replica:
                    salted(hash64(u) + i, salt) < fraction * 2^64
    extend_chain    running hashes of the ledger: sum += hash64(offset) over the set of offsets,
                    chain = hash64(chain + hash64(offset) + 16 partition + outcome) over their order
    count_items     counts per item, so that sketches are updated once per item

Two encodings of one event have one digest. Different contents share one by a chance of 2^-32. The
hash is no secret: who writes events can craft two of one digest, and gains nothing by it. Counts
are linear: adding an item n times and adding it once with the count n leave the same bytes.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.machine.scalars import hash64, salted


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


@njit(cache=True, nogil=True)
def held_out(users, items, salt, threshold, out):
    """Set out[i] where the pair (users[i], items[i]) is never to be learned."""
    for i in range(users.shape[0]):
        out[i] = salted(hash64(users[i]) + items[i], salt) < threshold


@njit(cache=True, nogil=True)
def extend_chain(offsets, outcomes, partition, chain):
    """Return (sum of hash64(offset), new chain) over records in order; writes nothing."""
    total = np.uint64(0)
    base = np.uint64(partition) * np.uint64(16)
    for i in range(offsets.shape[0]):
        mixed = hash64(np.uint64(offsets[i]))
        total += mixed
        chain = hash64(chain + mixed + base + np.uint64(outcomes[i]))
    return total, chain


@njit(cache=True, nogil=True)
def count_items(rows, counts, distinct):
    """Count each row in `counts` (all zero before) and write the distinct ones; return how many."""
    found = 0
    for i in range(rows.shape[0]):
        row = rows[i]
        if counts[row] == 0:
            distinct[found] = row
            found += 1
        counts[row] += 1
    return found

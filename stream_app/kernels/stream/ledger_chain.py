"""Running hashes of the ledger: a sum over the set of offsets, and a chain over their order.

sum   += hash64(offset)
chain  = hash64(chain + hash64(offset) + 16 partition + outcome)
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.machine.hashing import hash64


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

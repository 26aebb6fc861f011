"""The ledger's running numbers: a sum names the set of offsets, a chain names their order.

sum   += mix(offset)
chain  = mix(chain + mix(offset) + 16 partition + outcome)
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.machine.hashing import hash64


@njit(cache=True, nogil=True)
def extend_chain(offsets, outcomes, partition, chain):
    """Return (sum of mix(offset), new chain) over records in order; writes nothing."""
    total = np.uint64(0)
    base = np.uint64(partition) * np.uint64(16)
    for i in range(offsets.shape[0]):
        mixed = hash64(np.uint64(offsets[i]))
        total += mixed
        chain = hash64(chain + mixed + base + np.uint64(outcomes[i]))
    return total, chain

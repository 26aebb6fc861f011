"""Which (user, item) pairs are held out: a keyed fraction, the same on every replica.

    held_out(u, i)  <=>  salted(hash64(u) + i, salt) < fraction * 2^64

A repeated pair is held out again.
"""

from __future__ import annotations

from numba import njit

from stream_app.kernels.machine.hashing import hash64, salted


@njit(cache=True, nogil=True)
def held_out(users, items, salt, threshold, out):
    """Set out[i] where the pair (users[i], items[i]) is never to be learned."""
    for i in range(users.shape[0]):
        out[i] = salted(hash64(users[i]) + items[i], salt) < threshold

"""One seed to many: the hashes of users, items and initial values are kept apart. And the secret
seed of tables whose layout is no part of the state."""

from __future__ import annotations

import secrets

import numpy as np

from stream_app.kernels.machine.scalars import hash64

USERS, ITEMS, CELLS = 1, 2, 3
_STEP = 0x9E3779B97F4A7C15


def derive_seed(seed: int, use: int) -> np.uint64:
    """Return the 64-bit seed of one use (`USERS`, `ITEMS` or `CELLS`) under `seed`."""
    return np.uint64(hash64(np.uint64((seed * 4 + use) * _STEP % 2**64)))


def secret_seed() -> np.uint64:
    """Return a seed of this process for a hash table whose layout shows in no result.

    Devices choose the keys: with a public seed they could choose many of one slot, and one message
    would cost seconds.
    """
    return np.uint64(secrets.randbits(64))

"""Keys that devices choose so that a table whose hash they know gets slow: counted in probes."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from stream_app.kernels.machine.scalars import hash64
from stream_app.kernels.stream import hash_index
from stream_app.state.known_items import ItemDirectory, KnownItems
from tests.fixtures.collisions import crafted, unhashed

CRAFTED = 131_072


def probes(slots: NDArray[np.int64], keys: NDArray[np.uint64], seed: np.uint64) -> float:
    """Return how many slots a look at a known key reads, on average."""
    taken = np.flatnonzero(slots >= 0)
    homes = homes_of(keys[slots[taken]], seed) % np.uint64(len(slots))
    return float(((taken - homes.astype(np.int64)) % len(slots)).mean() + 1)


@njit
def homes_of(keys, seed):
    """Return the hash of each key by which the directory places it."""
    found = np.empty_like(keys)
    for i in range(len(keys)):
        found[i] = hash_index.home_of(keys[i], seed)
    return found


def test_hash64_is_inverted():
    values = np.random.default_rng(1).integers(0, 2**64, 100, dtype=np.uint64)
    assert [int(hash64(key)) for key in unhashed(values)] == values.tolist()


def test_keys_that_collide_under_the_public_hash_cost_as_much_as_others_in_the_directory():
    """Under a placement by `hash64` alone it is 65,536.5 slots a key."""
    keys = np.random.default_rng(1).integers(0, 2**64, CRAFTED, dtype=np.uint64)
    cost = []
    for chosen in (keys, crafted(CRAFTED)):
        directory, known = ItemDirectory(), KnownItems(CRAFTED)
        directory.rows(chosen, add=True)
        known.enter(chosen)
        cost.append(
            [
                probes(directory._slots, directory.keys, directory._seed),
                probes(known._slots, known.keys, known._seed),
            ]
        )
    assert (np.array(cost[1]) < 2 * np.array(cost[0])).all()
    assert max(cost[0]) < 3

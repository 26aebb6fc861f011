"""The stream cipher ChaCha20, as RFC 8439 section 2.3 writes it."""

from __future__ import annotations

import struct

_ROUNDS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
           (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))  # fmt: skip


def block(key: bytes, counter: int, nonce: bytes) -> bytes:
    """Return the 64 bytes of the keystream at a block counter."""
    start = [*struct.unpack("<4I", b"expand 32-byte k"), *struct.unpack("<8I", key)]
    start += [counter, *struct.unpack("<3I", nonce)]
    state = list(start)
    for _ in range(10):
        for quarter in _ROUNDS:
            _quarter(state, *quarter)
    return struct.pack("<16I", *((a + b) % 2**32 for a, b in zip(state, start, strict=True)))


def _quarter(state: list[int], a: int, b: int, c: int, d: int) -> None:
    for target, added, turned, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        state[target] = (state[target] + state[added]) % 2**32
        mixed = state[turned] ^ state[target]
        state[turned] = (mixed << bits | mixed >> (32 - bits)) % 2**32

"""Random words from a secret key: the noise of an aggregator is drawn once, whatever crashes.

    words = keystream of ChaCha20 (RFC 8439), 65,536 bytes for each nonce 0, 1, 2 ..

An aggregator's noise has to be unpredictable for everyone else and the same after a restart: a
second draw for the same sum would halve the variance for an observer of both. So its words are a
function of a secret key, which is derived for one stage and one set of records and used for nothing
else.

The keystream is what libsodium adds to a message of zeros in ChaCha20-Poly1305; the authentication
tag is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from nacl import bindings
from numpy.typing import NDArray

KEY_BYTES = bindings.crypto_aead_chacha20poly1305_ietf_KEYBYTES
_NONCE_BYTES = bindings.crypto_aead_chacha20poly1305_ietf_NPUBBYTES
_BLOCK = 1 << 13  # words
_ZEROS = bytes(8 * _BLOCK)


@dataclass
class KeyedSource:
    """The words of a 32-byte key, in order; how they are split into calls does not change them.

    Not `unsafe`: only a holder of the key can predict or replay them. ValueError for other keys.
    """

    key: bytes = field(repr=False)
    unsafe: bool = field(default=False, init=False)
    _block: NDArray[np.uint64] = field(init=False, repr=False)
    _blocks: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.key) != KEY_BYTES:
            raise ValueError(f"key of {len(self.key)} bytes: must be {KEY_BYTES}")
        self._block = np.empty(0, np.uint64)

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return the next `count` words; no word is returned twice."""
        parts, left = [], count
        while left > len(self._block):
            parts.append(self._block)
            left -= len(self._block)
            self._block = self._next()
        parts.append(self._block[:left])
        self._block = self._block[left:]
        return np.concatenate(parts)

    def _next(self) -> NDArray[np.uint64]:
        nonce = self._blocks.to_bytes(_NONCE_BYTES, "little")
        self._blocks += 1
        stream = bindings.crypto_aead_chacha20poly1305_ietf_encrypt(_ZEROS, None, nonce, self.key)
        return np.frombuffer(stream, "<u8", _BLOCK).astype(np.uint64, copy=False)

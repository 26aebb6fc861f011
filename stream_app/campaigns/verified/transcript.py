"""The challenges of a proof: hashes of what the device has fixed before each of them.

    state_0  = H(context, commitment of party 0, commitment of party 1 to its share of the vector)
    state_i  = H(state_i-1, commitment of party 1 to its share of what comes next)

The share of party 0 follows from a seed, so one commitment fixes all of it. A commitment of party 1
hides the share by a blind, without which party 0 could test guesses of the vector. (Fiat and Shamir
1986; joint randomness of shares as in draft-irtf-cfrg-vdaf, section 6.2.)
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

from stream_app.campaigns.verified import field
from stream_app.campaigns.verified.field import Residues
from stream_app.privacy.gaussian.keyed_source import KeyedSource

HASH_BYTES = 32
_PERSON = b"murmurec.norm.1"


def commitment(blind: bytes, number: int, share: bytes) -> bytes:
    """Return what fixes a share and hides it; `number` is its place among those of a proof."""
    return _hash(b"share", blind, number.to_bytes(4, "little"), share)


def secret_of_both(seed: bytes, blind: bytes) -> bytes:
    """Return 32 bytes that neither of two parties knows, of which one has the seed and the other
    the blind."""
    return _hash(b"masks", seed, blind)


class Transcript:
    """The state after what was committed so far."""

    def __init__(self, context: bytes, seeded: bytes, vector: bytes) -> None:
        self.state = _hash(b"begin", context, seeded, vector)

    def absorb(self, committed: bytes) -> None:
        """Take the next commitment."""
        self.state = _hash(b"next", self.state, committed)

    def bits(self, count: int) -> bytes:
        """Return so many uniform bytes."""
        words = KeyedSource(_hash(b"rows", self.state)).words(-(-count // 8))
        return words.astype("<u8", copy=False).tobytes()[:count]

    def challenges(self, count: int) -> Residues:
        """Return elements of F_p^2 (2, count) whose second parts are not 0."""
        blocks = [_hash(b"point", self.state, bytes([n])) for n in range(1 + count)]
        parts = field.uniform(np.frombuffer(b"".join(blocks), "<u8").astype(np.uint64))
        return parts[parts > 0][: 2 * count].reshape(2, count)


def _hash(*parts: bytes) -> bytes:
    framed = b"".join([each for part in parts for each in (len(part).to_bytes(8, "little"), part)])
    return blake2b(framed, digest_size=HASH_BYTES, person=_PERSON).digest()

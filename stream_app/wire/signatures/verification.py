"""Ed25519 (RFC 8032) by libsodium, through PyNaCl.

libsodium refuses a scalar that is not reduced, a key that is not canonical, and a key or a
commitment of small order; it accepts by the equation without the cofactor. Libraries, and releases
of one library, differ in these rules for signatures that only the owner of a key can craft.
Replicas with different rules would hold different states, so a worker checks the verdicts of its
library on `vectors.py` before it reads the first record.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from nacl import bindings
from nacl.exceptions import BadSignatureError
from numpy.typing import NDArray


def key_pair(seed: bytes) -> tuple[bytes, bytes]:
    """Return the public key (32 bytes) and the secret one (64) of a seed of 32 bytes."""
    public, secret = bindings.crypto_sign_seed_keypair(seed)
    return bytes(public), bytes(secret)


def sign(secret_key: bytes, message: bytes) -> bytes:
    """Return the signature (64 bytes), the same for the same arguments."""
    return bytes(bindings.crypto_sign(message, secret_key)[:64])


def verify_each(claims: Sequence[tuple[bytes, bytes, bytes]]) -> NDArray[np.bool_]:
    """Return for each (public key, signature, message) whether the signature is valid."""
    return np.fromiter((_valid(*claim) for claim in claims), np.bool_, len(claims))


def _valid(public_key: bytes, signature: bytes, message: bytes) -> bool:
    try:
        bindings.crypto_sign_open(signature + message, public_key)
    except BadSignatureError:
        return False
    return True

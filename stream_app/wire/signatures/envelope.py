"""The envelope of a signed event: made by a device, opened by a server.

Ed25519 (RFC 8032) by libsodium, through PyNaCl.

libsodium refuses a scalar that is not reduced, a key that is not canonical, and a key or a
commitment of small order; it accepts by the equation without the cofactor. Libraries, and releases
of one library, differ in these rules for signatures that only the owner of a key can craft.
Replicas with different rules would hold different states, so a worker checks the verdicts of its
library on `vectors.py` before it reads the first record.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

import numpy as np
from nacl import bindings
from nacl.exceptions import BadSignatureError
from numpy.typing import NDArray

ENVELOPE = 0xC1
KEY_BYTES, SIGNATURE_BYTES, PSEUDONYM_BYTES = 32, 64, 16
HEAD_BYTES = 1 + KEY_BYTES + SIGNATURE_BYTES
_DOMAIN = b"murmurec event 1\0"
TAG, TAG_BYTES = "tag", 16  # a header of the record, or a parameter of the content type
_TAG = re.compile(r";\s*tag=([0-9a-f]{32})\s*(?:;|$)")


def digest_of(value: bytes) -> bytes:
    """Return what a tag is made of a record's value, 16 bytes."""
    return sha256(value).digest()[:16]


def tag_in(content_type: str) -> bytes:
    """Return the tag in the content type of a body that becomes a record; empty without one."""
    found = _TAG.search(content_type)
    return bytes.fromhex(found[1]) if found else b""


def pseudonym_of(public_key: bytes) -> bytes:
    """Return the pseudonym of the device with this public key."""
    return sha256(public_key).digest()[:PSEUDONYM_BYTES]


def signed_bytes(topic: str, event: bytes) -> bytes:
    """Return the bytes that are signed for an event of a topic."""
    return b"%b%b\0%b" % (_DOMAIN, topic.encode(), event)


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


@dataclass(frozen=True, repr=False)  # the secret has no place in a log
class SigningKey:
    """The key pair of a device, made from 32 secret bytes."""

    public_key: bytes
    secret_key: bytes

    @classmethod
    def from_seed(cls, seed: bytes) -> SigningKey:
        """Return the key pair of 32 bytes (RFC 8032, 5.1.5)."""
        if len(seed) != KEY_BYTES:
            raise ValueError(f"seed of {len(seed)} bytes: a key pair is made from {KEY_BYTES}")
        return cls(*key_pair(seed))

    @property
    def pseudonym(self) -> bytes:
        """The pseudonym of the device, 16 bytes."""
        return pseudonym_of(self.public_key)

    def seal(self, topic: str, event: bytes) -> bytes:
        """Return the envelope with an encoded event; equal arguments give equal bytes."""
        signature = sign(self.secret_key, signed_bytes(topic, event))
        return b"%c%b%b%b" % (ENVELOPE, self.public_key, signature, event)


class Claim(NamedTuple):
    """That the device with a public key has signed the message."""

    public_key: bytes
    signature: bytes
    message: bytes


Verify = Callable[[Sequence[Claim]], NDArray[np.bool_]]


@dataclass(frozen=True)
class Signatures:
    """How a server takes signatures: whether they are `required`, and of which `topic`.

    Where they are not, an envelope is opened and its signature not looked at: who can forge an
    event could send it without one, and a check costs more than all else that a record costs.
    `verify` returns for each claim whether it is true; every form of it has the same verdicts.
    """

    topic: str = ""
    required: bool = False
    verify: Verify = verify_each


def envelope_device(value: bytes) -> bytes | None:
    """Return the pseudonym that an envelope names; None for any other value."""
    if len(value) < HEAD_BYTES or value[0] != ENVELOPE:
        return None
    return pseudonym_of(value[1 : 1 + KEY_BYTES])


def opened(
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    signatures: Signatures,
    most: int,
) -> tuple[list[bytes | None], NDArray[np.bool_]] | None:
    """Return the events of a run of records without their envelopes, and which records (n,) are
    refused; None where there is no envelope and none is required.

    Refused: an envelope that is cut short or names another device than the record's key; where
    signatures are required, a wrong one too, and any other value. Values that are empty or longer
    than `most` are neither opened nor refused.
    """
    if not (signatures.required or any(value and value[0] == ENVELOPE for value in values)):
        return None
    events = list(values)
    refused = np.zeros(len(events), np.bool_)
    claims: list[Claim] = []
    places: list[int] = []
    for i, (key, value) in enumerate(zip(keys, values, strict=True)):
        if not value or len(value) > most:
            continue
        if value[0] != ENVELOPE:
            refused[i] = signatures.required
            continue
        device = envelope_device(value)
        if device is None or key != device.hex().encode():
            refused[i] = True
            continue
        events[i] = event = value[HEAD_BYTES:]
        if signatures.required:
            message = signed_bytes(signatures.topic, event)
            signature = value[1 + KEY_BYTES : HEAD_BYTES]
            claims.append(Claim(value[1 : 1 + KEY_BYTES], signature, message))
            places.append(i)
    if claims:
        refused[places] = ~signatures.verify(claims)
    return events, refused

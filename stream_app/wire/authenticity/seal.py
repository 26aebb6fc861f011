"""Seals: keyed digests of records that only holders of the deployment's secret can make.

    tag = blake2b-128(key, kind, record)    key = blake2b-256(secret, topic prefix)

blake2b with a key is a message authentication code (Aumasson et al. 2013, section 2.9; RFC 7693).
`kind` separates the record types, and the prefix the deployments: a tag is valid for no other. A
seal without a secret makes tags of zeros and accepts no other tag.
"""

from __future__ import annotations

from hashlib import blake2b
from hmac import compare_digest

from stream_app.wire.reasons import Reason, WireError

SEAL_BYTES = 16
MIN_SECRET = 32  # characters; 32 hex digits hold 128 bits
NO_TAG = bytes(SEAL_BYTES)


class ForeignSeal(WireError):
    """An undamaged record whose seal is not that of this deployment's secret."""

    def __init__(self) -> None:
        super().__init__(Reason.MALFORMED)


class Seal:
    """Makes and checks the tags of one deployment; `Seal()` has no secret."""

    def __init__(self, secret: str = "", prefix: str = "") -> None:
        if secret and len(secret) < MIN_SECRET:
            raise ValueError(f"the secret has {len(secret)} characters: use at least {MIN_SECRET}")
        # 32 bytes of key: blake2b takes at most 64, and a secret may be longer.
        key = blake2b(secret.encode(), digest_size=32, person=b"murmurec secret").digest()
        self._key = blake2b(prefix.encode(), key=key, digest_size=32).digest() if secret else b""

    @property
    def keyed(self) -> bool:
        """Whether there is a secret."""
        return bool(self._key)

    def tag(self, kind: bytes, record: bytes | memoryview) -> bytes:
        """Return the tag (16 bytes) of a record; `kind` has at most 16 bytes."""
        if not self._key:
            return NO_TAG
        return blake2b(record, key=self._key, person=kind, digest_size=SEAL_BYTES).digest()

    def check(self, kind: bytes, record: bytes | memoryview, tag: bytes) -> None:
        """Raise `ForeignSeal` unless the tag is that of the record."""
        if not compare_digest(self.tag(kind, record), tag):
            raise ForeignSeal


class AnySeal(Seal):
    """Accepts every tag: for tools that show records, and for the one start that gives them a new
    seal."""

    def check(self, kind: bytes, record: bytes | memoryview, tag: bytes) -> None:
        """Accept the tag."""


OPEN = Seal()
ANY = AnySeal()

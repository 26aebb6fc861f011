"""The newest record of a partition below an offset, by which a log that lost its end is recognised.

    fingerprint = blake2b-64(offset, leader epoch, key, value)

A broker that loses the end of a partition (a power cut before the disk was written, an election of
a replica that was behind) gives the same offsets again, to other records. A replica that had read
the lost records then has a state that no log leads to. Kafka's leader epoch grows with every
election, so records with equal offset and epoch have equal records before them; the fingerprint
also covers brokers and copies of topics that do not keep epochs.

64 bits suffice: the fingerprint detects an accident, and each replica computes it from the records
it received. It decides nothing in the state.
"""

from __future__ import annotations

import struct
from hashlib import blake2b

import msgspec

from stream_app.wire.decoding import held

_HEAD = struct.Struct(">qqi")
_BYTES = 8


class Tail(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The offset and the fingerprint (16 hex) of a record."""

    offset: int
    fingerprint: str


def fingerprint(offset: int, epoch: int, key: bytes | None, value: bytes | None) -> str:
    """Return the fingerprint of a record, 16 hex; `epoch` is -1 where the broker keeps none.

    That of a record that is too large is the same before and after a reader has shortened it.
    """
    key, value = held(key, value)
    length = -1 if key is None else len(key)
    digest = blake2b(_HEAD.pack(offset, epoch, length), digest_size=_BYTES)
    digest.update(key or b"")
    digest.update(b"\x00" if value is None else b"\x01" + value)
    return digest.hexdigest()

"""Replies sealed to the asker of a query: other readers of their topic see an id and a box.

    asker     one-time key pair (X25519)  --`reply_key`-->  worker
    record    MessagePack {"v":1, "id":correlation id, "box":sealed(context | reply, padded)}

A box is libsodium's sealed box (X25519, XSalsa20, Poly1305). The replies of a worker have one size,
and so have the boxes: their length shows the longest id of the public catalogue and nothing else.
The context names the whole query but its deadline: a copy with another user or option would
otherwise get the asker another list. A box has no sender: whoever reads queries and writes replies
can forge one.
"""

from __future__ import annotations

from functools import partial
from hashlib import blake2b
from typing import Annotated

import msgspec
from msgspec.structs import replace
from nacl import bindings
from nacl.exceptions import CryptoError

from stream_app.wire.decoding import checked
from stream_app.wire.limits import MAX_REPLY_BYTES, VERSION
from stream_app.wire.messages import Query, encode_message
from stream_app.wire.reasons import WireError

_CONTEXT_BYTES = 32
SEALING_BYTES = 48 + _CONTEXT_BYTES  # how much longer a box is than the reply in it


class SealedReply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A reply that only the asker of query `id` can open."""

    id: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{16,64}$")]
    box: Annotated[bytes, msgspec.Meta(min_length=SEALING_BYTES, max_length=MAX_REPLY_BYTES)]
    v: int = VERSION


def reply_record(query: Query, reply: bytes) -> bytes:
    """Return the value of a reply's record: sealed if the query has a key, else as it is;
    ValueError for a key to which nothing can be sealed (a point of small order)."""
    if query.reply_key is msgspec.UNSET:
        return reply
    try:
        box = bindings.crypto_box_seal(_context(query) + reply, bytes.fromhex(query.reply_key))
    except CryptoError:
        raise ValueError("reply_key: no public key of X25519") from None
    return msgspec.msgpack.encode(SealedReply(query.id, box))


def decode_sealed_reply(value: bytes | None) -> SealedReply:
    """Return the sealed reply in a record's value; raises `WireError` and nothing else."""
    decode = partial(msgspec.msgpack.decode, type=SealedReply)
    found: SealedReply = checked(decode, value, MAX_REPLY_BYTES)
    return found


class SealedQuery:
    """A query with a fresh key, whose secret half stays here; `refused` records were no answer."""

    def __init__(self, query: Query) -> None:
        self._public, self._secret = bindings.crypto_box_keypair()
        self.query = replace(query, reply_key=self._public.hex())
        self.refused = 0

    def opened(self, value: bytes | None) -> bytes | None:
        """Return the reply in a record's value; None where it is not sealed, damaged, or sealed to
        another key, query or user."""
        try:
            box = decode_sealed_reply(value).box
            plain = bindings.crypto_box_seal_open(box, self._public, self._secret)
        except (WireError, CryptoError):
            return None
        context = _context(self.query)
        return plain[_CONTEXT_BYTES:] if plain[:_CONTEXT_BYTES] == context else None


def _context(query: Query) -> bytes:
    body = encode_message(replace(query, deadline=0))
    return blake2b(body, digest_size=_CONTEXT_BYTES, person=b"murmurec.reply.1").digest()

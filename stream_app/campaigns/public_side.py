"""What a campaign has published: the item side by which a device ranks with its own history.

It is computed from noisy sums alone, so every reader may have it. Its bytes are MessagePack, the
same on every machine for the same sums; matrices are float32, little-endian, row by row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_app.campaigns.together import TogetherSide
from stream_app.wire.campaigns.plan import Number
from stream_app.wire.ids import Item
from stream_app.wire.limits import MAX_SCOPE, VERSION

_FLOAT = "<f4"


@dataclass(frozen=True, eq=False)
class PublicSide:
    """The result of the stages of campaign `number` that were released; `scope` are its items, in
    the order of the coordinates. `together` is over the first of them, None before that stage."""

    number: int
    scope: tuple[Item, ...]
    together: TogetherSide | None = None


class _Together(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    items: Annotated[int, msgspec.Meta(ge=1, le=MAX_SCOPE)]
    vectors: bytes
    weights: bytes


class _Side(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    number: Number
    scope: Annotated[tuple[Item, ...], msgspec.Meta(min_length=1, max_length=MAX_SCOPE)]
    together: _Together | None = None
    v: int = VERSION


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Side)


def encode_side(side: PublicSide) -> bytes:
    """Return the item side as bytes."""
    found = side.together
    together = None
    if found is not None:
        together = _Together(len(found.vectors), _bytes(found.vectors), _bytes(found.weights))
    return _encoder.encode(_Side(side.number, side.scope, together))


def decode_side(value: bytes) -> PublicSide:
    """Return the item side in bytes; raises ValueError for any other bytes."""
    read = _decoder.decode(value)
    if read.v != VERSION:
        raise ValueError(f"version {read.v} of a public item side: this release reads {VERSION}")
    return PublicSide(read.number, read.scope, _together(read) if read.together else None)


def _together(read: _Side) -> TogetherSide:
    assert read.together is not None
    items, weights = read.together.items, _floats(read.together.weights)
    vectors = _floats(read.together.vectors)
    if items > len(read.scope) or len(vectors) != items * len(weights):
        raise ValueError(
            f"{len(vectors)} numbers for {len(weights)} directions over {items} items of a scope "
            f"of {len(read.scope)}"
        )
    return TogetherSide(vectors.reshape(items, len(weights)), weights)


def _bytes(array: NDArray[np.float32]) -> bytes:
    return array.astype(_FLOAT).tobytes()


def _floats(value: bytes) -> NDArray[np.float32]:
    if len(value) % 4:
        raise ValueError(f"{len(value)} bytes: a number has 4")
    array = np.frombuffer(value, _FLOAT).astype(np.float32)
    if not np.isfinite(array).all():
        raise ValueError("a public item side holds finite numbers only")
    return array

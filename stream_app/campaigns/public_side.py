"""What a campaign has published: the item side by which a device ranks with its own history.

It is computed from noisy sums alone, so every reader may have it. Its bytes are MessagePack, the
same on every machine for the same sums; matrices are float32, little-endian, row by row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_app.campaigns.features import Features, columns
from stream_app.campaigns.plan import Campaign
from stream_app.campaigns.stars.shape import MOST_FACTORS
from stream_app.campaigns.stars.side import StarsSide
from stream_app.campaigns.together import TogetherSide
from stream_app.wire.campaigns.plan import Number
from stream_app.wire.ids import Item
from stream_app.wire.limits import MAX_SCOPE, MAX_STAGES, VERSION

_FLOAT, _PLACE = "<f4", "<u4"


@dataclass(frozen=True, eq=False)
class PublicSide:
    """The result of the stages of campaign `number` that were released; `scope` are its items, in
    the order of the coordinates. `together` is over the first of them, None before that stage;
    `stars` is over all of them, after the stages that it counts, None before the first. `features`
    are those of the plan, from which the features of `stars` are computed; None where it has none.
    """

    number: int
    scope: tuple[Item, ...]
    together: TogetherSide | None = None
    stars: StarsSide | None = None
    features: Features | None = None

    @classmethod
    def begin(cls, campaign: Campaign) -> PublicSide:
        """Return what is public of a campaign before its first stage."""
        return cls(campaign.number, campaign.scope, features=campaign.public_features)


class _Together(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    items: Annotated[int, msgspec.Meta(ge=1, le=MAX_SCOPE)]
    vectors: bytes
    weights: bytes


class _Stars(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    stages: Annotated[int, msgspec.Meta(ge=0, le=MAX_STAGES)]
    factors: Annotated[int, msgspec.Meta(ge=1, le=MOST_FACTORS)]
    precision: Annotated[float, msgspec.Meta(ge=0)]
    biases: bytes
    counts: bytes
    vectors: bytes
    head: bytes
    whitening: bytes
    spread: bytes


class _Side(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    number: Number
    scope: Annotated[tuple[Item, ...], msgspec.Meta(min_length=1, max_length=MAX_SCOPE)]
    together: _Together | None = None
    stars: _Stars | None = None
    features: Features | msgspec.UnsetType = msgspec.UNSET
    v: int = VERSION


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Side)


def encode_side(side: PublicSide) -> bytes:
    """Return the item side as bytes."""
    found = side.together
    together = None
    if found is not None:
        together = _Together(len(found.vectors), _bytes(found.vectors), _bytes(found.weights))
    stars = None if side.stars is None else _of_stars(side.stars)
    features = msgspec.UNSET if side.features is None else side.features
    return _encoder.encode(_Side(side.number, side.scope, together, stars, features))


def decode_side(value: bytes) -> PublicSide:
    """Return the item side in bytes; raises ValueError for any other bytes."""
    read = _decoder.decode(value)
    if read.v != VERSION:
        raise ValueError(f"version {read.v} of a public item side: this release reads {VERSION}")
    together = _together(read) if read.together else None
    features = None if read.features is msgspec.UNSET else read.features
    known = columns(features, len(read.scope))
    stars = _stars(read.stars, known) if read.stars else None
    return PublicSide(read.number, read.scope, together, stars, features)


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


def _of_stars(side: StarsSide) -> _Stars:
    return _Stars(
        stages=side.stages,
        factors=side.vectors.shape[1],
        precision=side.precision,
        biases=_bytes(side.biases),
        counts=_bytes(side.counts),
        vectors=_bytes(side.vectors),
        head=side.head.astype(_PLACE).tobytes(),
        whitening=_bytes(side.whitening),
        spread=_bytes(side.spread),
    )


def _stars(read: _Stars, features: NDArray[np.float64]) -> StarsSide:
    """Return the side over items with these features (n, m); every array has the size that it has
    there, and every number is one that a campaign could give."""
    items, d = len(features), read.factors
    if len(read.head) % 4:
        raise ValueError(f"a head of {len(read.head)} bytes: a place has 4")
    side = StarsSide(
        biases=_matrix(read.biases, (items,)),
        counts=_matrix(read.counts, (items,)),
        vectors=_matrix(read.vectors, (items, d)),
        features=features,
        head=np.frombuffer(read.head, _PLACE).astype(np.intp),
        whitening=_matrix(read.whitening, (d, d)),
        spread=_matrix(read.spread, (d, d)),
        precision=read.precision,
        stages=read.stages,
    )
    side.check()
    return side


def _matrix(value: bytes, size: tuple[int, ...]) -> NDArray[np.float64]:
    found = _floats(value)
    if len(found) != math.prod(size):
        raise ValueError(f"{len(found)} numbers instead of {math.prod(size)}")
    return found.astype(np.float64).reshape(size)


def _bytes(array: NDArray[np.floating]) -> bytes:
    return array.astype(_FLOAT).tobytes()


def _floats(value: bytes) -> NDArray[np.float32]:
    if len(value) % 4:
        raise ValueError(f"{len(value)} bytes: a number has 4")
    array = np.frombuffer(value, _FLOAT).astype(np.float32)
    if not np.isfinite(array).all():
        raise ValueError("a public item side holds finite numbers only")
    return array

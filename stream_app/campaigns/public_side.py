"""What a campaign has published: the item side by which a device ranks with its own history.

It is computed from noisy sums alone, so every reader may have it. Its bytes are MessagePack, the
same on every machine for the same sums; matrices are float32, little-endian, row by row.

The public item side of a campaign with what a reader has to know of its plan, as bytes.

    MessagePack {plan, released, stages, epsilon, delta, parties, side, v}

`side` are the bytes of `public_side.py`, and the plan is named by its digest. All of it follows
from the public plan and from noisy sums that stand in the cut log.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_app.campaigns.features import Features, columns
from stream_app.campaigns.plan import Campaign
from stream_app.campaigns.stars.shape import MOST_FACTORS
from stream_app.campaigns.stars.side import StarsSide
from stream_app.campaigns.together import TogetherSide
from stream_app.wire.campaigns.plan import DIGEST_BYTES, Number, decode_rational, encode_rational
from stream_app.wire.ids import Item, key
from stream_app.wire.limits import MAX_SCOPE, MAX_STAGES, MAX_TABLE_BYTES, VERSION

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


_UNIT = 1.0 + 2.0**-16  # an entry of a unit vector, rounded to float32


class PublishedSideError(ValueError):
    """Bytes that hold no side of a campaign which this version can read."""


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    plan: Annotated[bytes, msgspec.Meta(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]
    released: Annotated[int, msgspec.Meta(ge=1, le=MAX_STAGES)]
    stages: Annotated[int, msgspec.Meta(ge=1, le=MAX_STAGES)]
    epsilon: Fraction
    delta: Fraction
    parties: Literal[1, 2]
    side: Annotated[bytes, msgspec.Meta(max_length=MAX_TABLE_BYTES)]
    v: int = VERSION


@dataclass(frozen=True, eq=False)
class PublishedSide:
    """A side after `released` of the `stages` of the plan with the digest `plan`; a person who
    contributed to every stage has spent (`epsilon`, `delta`), over `parties` aggregators."""

    plan: bytes
    released: int
    stages: int
    epsilon: Fraction
    delta: Fraction
    parties: Literal[1, 2]
    side: PublicSide

    @classmethod
    def of_campaign(cls, campaign: Campaign, released: int, side: PublicSide) -> PublishedSide:
        """Return the side of a campaign of which `released` stages are released."""
        return cls(
            campaign.digest,
            released,
            len(campaign.stages),
            campaign.epsilon,
            campaign.delta,
            campaign.parties,
            side,
        )

    @property
    def keys(self) -> NDArray[np.uint64]:
        """The keys of the items of the scope (n,), in its order."""
        return np.array([key(item) for item in self.side.scope], np.uint64)


_record_encoder = msgspec.msgpack.Encoder(enc_hook=encode_rational)
_record_decoder = msgspec.msgpack.Decoder(_Record, dec_hook=decode_rational)


def encode_published(published: PublishedSide) -> bytes:
    """Return the published side as bytes."""
    return _record_encoder.encode(
        _Record(
            published.plan,
            published.released,
            published.stages,
            published.epsilon,
            published.delta,
            published.parties,
            encode_side(published.side),
        )
    )


def decode_published(value: bytes) -> PublishedSide:
    """Return the published side in bytes; raises PublishedSideError for any other bytes."""
    if len(value) > MAX_TABLE_BYTES:
        raise PublishedSideError(f"{len(value)} bytes: a side has at most {MAX_TABLE_BYTES}")
    if (version := _version(value)) != VERSION:
        raise PublishedSideError(f"format {version}: this version reads format {VERSION}")
    try:
        read = _record_decoder.decode(value)
        side = decode_side(read.side)
        found = PublishedSide(
            read.plan, read.released, read.stages, read.epsilon, read.delta, read.parties, side
        )
        _check(found)
    except PublishedSideError:
        raise
    except (ValueError, RecursionError) as error:
        raise PublishedSideError(f"no side of a campaign: {error}") from None
    return found


def _version(value: bytes) -> int:
    """Return the version that a MessagePack map states, 0 where there is none."""
    try:
        stated = msgspec.msgpack.decode(value, type=dict[str, msgspec.Raw])
        return msgspec.msgpack.decode(stated["v"], type=int)
    except (ValueError, KeyError, RecursionError):
        return 0


def _check(found: PublishedSide) -> None:
    """Raise ValueError for what no campaign gives, and a reader would rank by."""
    if found.released > found.stages:
        raise ValueError(f"{found.released} stages released of {found.stages}")
    if found.delta >= 1:
        raise ValueError(f"delta {found.delta}: below 1")
    if len(np.unique(found.keys)) != len(found.side.scope):
        raise ValueError("an item is in the scope twice")
    together = found.side.together
    if together is None:
        return
    if (together.weights < 0).any() or (together.weights > 1).any():
        raise ValueError("a direction has a weight from 0 to 1")
    if (np.abs(together.vectors) > _UNIT).any():
        raise ValueError("a direction is a unit vector")

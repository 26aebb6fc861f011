"""What a campaign has published: the item side by which a device ranks with its own history.

It is computed from noisy sums alone, so every reader may have it. Its bytes are MessagePack, the
same on every machine for the same sums; matrices are float32, little-endian, row by row.

The public item side of a campaign with what a reader has to know of its plan, as bytes.

    MessagePack {plan, released, stages, epsilon, delta, parties, side, v}

`side` are the bytes of `public_side.py`, and the plan is named by its digest. All of it follows
from the public plan and from noisy sums that stand in the cut log.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_app.campaigns.plan import Campaign
from stream_app.campaigns.together import TogetherSide
from stream_app.wire.campaigns.plan import DIGEST_BYTES, Number, decode_rational, encode_rational
from stream_app.wire.ids import Item, key
from stream_app.wire.limits import MAX_SCOPE, MAX_STAGES, MAX_TABLE_BYTES, VERSION

_FLOAT = "<f4"


@dataclass(frozen=True, eq=False)
class PublicSide:
    """The result of the newest released stage of campaign `number`; `scope` are its items, in the
    order of the coordinates. `together` is over the first of them, None before any stage."""

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

"""The public plan of a campaign: what every device computes, who adds noise, and how much.

A campaign is a sequence of stages. In each stage a device sends one contribution, a vector of
`size` integers of L2 norm at most `bound`; what becomes public is their sum with discrete Gaussian
noise of `variance` (squared grid units), in split mode once from each party. The shares of the
stages are parts of mu^2 of the campaign's Gaussian curve (Dong, Roth and Su 2022, Cor. 3.3).

A plan is a value. Its `digest` covers every field, the public keys of the parties among them; each
contribution and each entry of the log of rounds names it, so none counts under another plan.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import cached_property
from hashlib import blake2b
from typing import Annotated, Any, Literal

import msgspec

from stream_app.wire.ids import Item, key, parse_item
from stream_app.wire.limits import (
    MAX_BOUND,
    MAX_INTEGERS,
    MAX_SCOPE,
    MAX_SEQ,
    MAX_STAGES,
    MAX_VARIANCE,
    MIN_VARIANCE,
    VERSION,
)

DIGEST_BYTES = 32
_PERSON = b"murmurec.plan.1"
_RATIONAL = re.compile(r"[1-9][0-9]{0,19}(/[1-9][0-9]{0,19})?", re.ASCII)

Kind = Annotated[str, msgspec.Meta(pattern="^[a-z][a-z0-9-]{0,31}$")]
PublicKey = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
Number = Annotated[int, msgspec.Meta(ge=1, le=MAX_SEQ)]


class Stage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One released sum: `size` integers a contribution, of norm at most `bound`.

    It is aborted with fewer than `least` contributions or with more than `most`, and closes
    `deadline_cuts` cuts after it opened. `share` is its part of the campaign's mu^2.
    """

    kind: Kind
    size: Annotated[int, msgspec.Meta(ge=1, le=MAX_INTEGERS)]
    bound: Annotated[int, msgspec.Meta(ge=1, le=MAX_BOUND)]
    variance: Annotated[int, msgspec.Meta(ge=MIN_VARIANCE, le=MAX_VARIANCE)]
    share: Fraction
    least: Annotated[int, msgspec.Meta(ge=2, le=2**31)]
    deadline_cuts: Annotated[int, msgspec.Meta(ge=1, le=2**31)]

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"share {self.share} of stage {self.kind}: above 0, at most 1")
        if self.least > self.most:
            raise ValueError(
                f"least {self.least} of stage {self.kind}: a sum of norms up to {self.bound} holds "
                f"at most {self.most} contributions; take a smaller bound"
            )

    @property
    def most(self) -> int:
        """Contributions whose sum, with 16 standard deviations of the noise of either party, fits
        the 32 bits of a coordinate, even if all are `bound` at one coordinate."""
        noise = 2 * 16 * (math.isqrt(self.variance) + 1)
        return (2**31 - 1 - noise) // self.bound


class Campaign(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """A plan: a person who contributes to every stage spends (`epsilon`, `delta`).

    `parties` is 1 for a trusted aggregator and 2 for additive shares between two; `keys` are their
    public keys in hex, empty while a plan is only evaluated. `scope` are the public items, in the
    order of the coordinates. Where `signed`, a contribution counts in the envelope of its device
    alone.
    """

    number: Number
    epsilon: Fraction
    delta: Fraction
    parties: Literal[1, 2]
    scope: Annotated[tuple[Item, ...], msgspec.Meta(min_length=1, max_length=MAX_SCOPE)]
    stages: Annotated[tuple[Stage, ...], msgspec.Meta(min_length=1, max_length=MAX_STAGES)]
    keys: tuple[PublicKey, ...] = ()
    signed: Literal[True] | msgspec.UnsetType = msgspec.UNSET
    v: int = VERSION

    def __post_init__(self) -> None:
        if self.epsilon <= 0 or not 0 < self.delta < 1:
            raise ValueError(
                f"campaign {self.number}: epsilon {self.epsilon} and delta {self.delta}; epsilon "
                "is above 0, delta between 0 and 1"
            )
        if self.keys and (len(self.keys) != self.parties or len(set(self.keys)) != self.parties):
            raise ValueError(
                f"campaign {self.number}: {len(set(self.keys))} different keys of {self.parties} "
                "parties; each party has a key of its own"
            )
        if any(isinstance(item, str) and parse_item(item) != item for item in self.scope):
            raise ValueError(
                f"campaign {self.number}: an integer of the scope is text; write the number"
            )
        if len({key(item) for item in self.scope}) != len(self.scope):
            raise ValueError(f"campaign {self.number}: an item is in the scope twice")
        if sum(stage.share for stage in self.stages) > 1:
            raise ValueError(
                f"campaign {self.number}: the shares of the stages exceed the budget; together "
                "they are at most 1"
            )

    @property
    def is_signed(self) -> bool:
        """Whether contributions that are not signed by their device do not count."""
        return self.signed is True

    @cached_property  # a device asks for it with each contribution; hence `dict`
    def digest(self) -> bytes:
        """The 32 bytes that identify the plan and every field of it."""
        return blake2b(encode_plan(self), digest_size=DIGEST_BYTES, person=_PERSON).digest()


def encode_plan(campaign: Campaign) -> bytes:
    """Return the plan as JSON, the same bytes on every machine; a rational is "p/q"."""
    return msgspec.json.encode(campaign, enc_hook=encode_rational)


def decode_plan(value: bytes) -> Campaign:
    """Return the plan in JSON bytes; raises `msgspec.MsgspecError` (a ValueError)."""
    return msgspec.json.decode(value, type=Campaign, dec_hook=decode_rational)


def encode_rational(value: Any) -> str:
    """Return a rational in lowest terms as text: "1/3", "2"."""
    if not isinstance(value, Fraction):
        raise NotImplementedError(f"{type(value).__name__} has no form on the wire")
    return str(value)


def decode_rational(wanted: type, value: Any) -> Any:
    """Return the positive rational of a text in the one form that `encode_rational` gives."""
    if wanted is not Fraction or not isinstance(value, str) or not _RATIONAL.fullmatch(value):
        raise ValueError("a rational is text: p or p/q, each of at most 20 digits")
    found = Fraction(value)
    if str(found) != value:
        raise ValueError("a rational is in lowest terms")
    return found

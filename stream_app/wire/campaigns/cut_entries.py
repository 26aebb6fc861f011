"""What the cut log states of campaigns: by these entries every replica knows the same at each cut.

    campaign   a plan is in force from the round that the next cut ends
    released   the noisy sum of the next stage of that plan
    aborted    its next stage, and with it the campaign, ended without a sum

They decide the state, as cuts and forgets do, so what they mean depends on the log and not on a
secret: an entry under a seal that is not that of `state_secret` is counted and reported, and takes
effect all the same. Otherwise a replay after a change of the secret would compute another state.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_app.wire.authenticity.seal import Seal
from stream_app.wire.campaigns.contribution import PlanDigest, StageIndex
from stream_app.wire.campaigns.plan import Campaign, encode_rational
from stream_app.wire.campaigns.round_log import AbortReason
from stream_app.wire.limits import MAX_CONTRIBUTIONS, MAX_INTEGERS, VERSION

_SEALED = b"campaign"
_INTEGER_BYTES = 4

_encoder = msgspec.msgpack.Encoder(enc_hook=encode_rational)
_Entry = TypeVar("_Entry", bound="_Sealable")


class _Sealable(msgspec.Struct, frozen=True, kw_only=True):
    """An entry with a version and, if the deployment has a secret, a seal (hex)."""

    v: int = VERSION
    seal: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")] | msgspec.UnsetType = msgspec.UNSET

    def sealed(self: _Entry, seal: Seal) -> _Entry:
        """Return this entry with a seal, or without one if `seal` has no secret."""
        bare = msgspec.structs.replace(self, seal=msgspec.UNSET)
        if not seal.keyed:
            return bare
        return msgspec.structs.replace(bare, seal=seal.tag(_SEALED, _encoder.encode(bare)).hex())

    def is_genuine(self, seal: Seal) -> bool:
        """Return whether a holder of the secret made this entry; always, without a secret."""
        return not seal.keyed or self == self.sealed(seal)


class CampaignPlan(
    _Sealable, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="campaign"
):
    """A campaign begins; the one before it is over."""

    plan: Campaign


class Released(
    _Sealable, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="released"
):
    """The result of a stage: the sum over so many contributions with all noise, int32 integers,
    little-endian."""

    plan: PlanDigest
    stage: StageIndex
    contributions: Annotated[int, msgspec.Meta(ge=0, le=MAX_CONTRIBUTIONS)]
    integers: Annotated[
        bytes,
        msgspec.Meta(min_length=_INTEGER_BYTES, max_length=_INTEGER_BYTES * MAX_INTEGERS),
    ]

    def __post_init__(self) -> None:
        if len(self.integers) % _INTEGER_BYTES:
            raise ValueError(f"{len(self.integers)} bytes: an integer has {_INTEGER_BYTES}")

    @property
    def noisy(self) -> NDArray[np.int64]:
        """The noisy sum (size,)."""
        return np.frombuffer(self.integers, "<i4").astype(np.int64)


class Aborted(_Sealable, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="aborted"):
    """A stage and its campaign ended without a result."""

    plan: PlanDigest
    stage: StageIndex
    reason: AbortReason


CampaignEntry = CampaignPlan | Released | Aborted

"""What the cut log states of campaigns: by these entries every replica knows the same at each cut.

    campaign   a plan is in force from the round that the next cut ends
    released   the noisy sum of the next stage of that plan
    aborted    its next stage, and with it the campaign, ended without a sum

They decide the state, as cuts and forgets do, so what they mean depends on the log and not on a
secret: an entry under a seal that is not that of `state_secret` is counted and reported, and takes
effect all the same. Otherwise a replay after a change of the secret would compute another state.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_app.wire.authenticity.seal import Seal
from stream_app.wire.campaigns.contribution import PlanDigest, StageIndex
from stream_app.wire.campaigns.plan import Campaign, encode_rational
from stream_app.wire.campaigns.round_log import AbortReason, LogEntry
from stream_app.wire.limits import MAX_CONTRIBUTIONS, MAX_INTEGERS

_INTEGER_BYTES = 4

_encoder = msgspec.msgpack.Encoder(enc_hook=encode_rational)
_Sealed = TypeVar("_Sealed", bound="SealedEntry")


class SealedEntry(LogEntry, frozen=True, kw_only=True):
    """An entry with, if the deployment has a secret, a seal (hex)."""

    seal: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")] | msgspec.UnsetType = msgspec.UNSET
    sealed_as: ClassVar[bytes] = b"campaign"

    def sealed(self: _Sealed, seal: Seal) -> _Sealed:
        """Return this entry with a seal, or without one if `seal` has no secret."""
        bare = msgspec.structs.replace(self, seal=msgspec.UNSET)
        if not seal.keyed:
            return bare
        tag = seal.tag(self.sealed_as, bare.sealed_bytes())
        return msgspec.structs.replace(bare, seal=tag.hex())

    def sealed_bytes(self) -> bytes:
        """Return what the seal covers, of an entry without one."""
        return _encoder.encode(self)

    def is_genuine(self, seal: Seal) -> bool:
        """Return whether a holder of the secret made this entry; always, without a secret."""
        return not seal.keyed or self == self.sealed(seal)


class CampaignPlan(SealedEntry, frozen=True, tag="campaign"):
    """A campaign begins; the one before it is over."""

    plan: Campaign


class Released(SealedEntry, frozen=True, tag="released"):
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


class Aborted(SealedEntry, frozen=True, tag="aborted"):
    """A stage and its campaign ended without a result."""

    plan: PlanDigest
    stage: StageIndex
    reason: AbortReason


CampaignEntry = CampaignPlan | Released | Aborted

"""The entries of the log of rounds: the life of each stage of a campaign, in the order that counts.

    plan      a campaign begins                           the owner of the clock
    open      devices may contribute to its next stage    the owner of the clock
    close     the records of the stage, by offsets        the owner of the clock
    opened    which of them a party could open            each party
    checks    what each of two parties says of proofs     each party
    share     a party's sum of these, with its noise      each party
    abort     the stage, and its campaign, end without    the owner of the clock, or a party
              a result

Every entry is MessagePack with a `kind` and names its plan by digest; the topic has one partition.
What the entries mean together is in `stream_app/campaigns/rounds.py`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

from stream_app.wire.campaigns.contribution import PlanDigest, StageIndex
from stream_app.wire.campaigns.plan import (
    Campaign,
    decode_rational,
    encode_plan,
    encode_rational,
)
from stream_app.wire.decoding import checked
from stream_app.wire.limits import (
    DEVICE_BYTES,
    MAX_CONTRIBUTIONS,
    MAX_FORGOTTEN,
    MAX_INTEGERS,
    MAX_PLAN_BYTES,
    MAX_ROUND_BYTES,
    MAX_SEQ,
    VERSION,
)
from stream_app.wire.reasons import Reason, WireError

RECORDS_DIGEST_BYTES = 32
CHECK_BYTES = 80
MOST_CHECKS = 8192  # of one entry
_Offset = Annotated[int, msgspec.Meta(ge=0, le=MAX_SEQ)]
_Offsets = Annotated[tuple[_Offset, ...], msgspec.Meta(min_length=1, max_length=4096)]
_Party = Annotated[int, msgspec.Meta(ge=0, le=1)]
_Device = Annotated[bytes, msgspec.Meta(min_length=DEVICE_BYTES, max_length=DEVICE_BYTES)]
_RecordsDigest = Annotated[
    bytes, msgspec.Meta(min_length=RECORDS_DIGEST_BYTES, max_length=RECORDS_DIGEST_BYTES)
]


class AbortReason(StrEnum):
    """Why a stage ends without a result."""

    TOO_FEW = "too_few"  # contributions that every party opened
    TOO_MANY = "too_many"  # contributions: their sum might not fit a coordinate
    TIMED_OUT = "timed_out"  # a party did not answer
    DISAGREEMENT = "disagreement"  # the parties did not read the same records
    RECORDS_GONE = "records_gone"  # the topic does not hold the stage's records any more
    OTHER_RECORDS = "other_records"  # a party has released this stage for other records
    BEYOND_BOUND = "beyond_bound"  # the sum is more than its contributions can add up to
    WITHDRAWN = "withdrawn"  # by an operator


class LogEntry(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", kw_only=True
):
    """An entry of a log: its version comes last."""

    v: int = VERSION


class _OfStage(LogEntry, frozen=True):
    plan: PlanDigest
    stage: StageIndex


class Planned(LogEntry, frozen=True, tag="plan"):
    """A campaign begins."""

    campaign: Campaign


class Open(_OfStage, frozen=True, tag="open"):
    """A stage begins: its records are those from `begins`, an offset for each partition."""

    begins: _Offsets


class Close(_OfStage, frozen=True, tag="close"):
    """A stage takes no more records: `ends[p]` is the first offset of partition p that is not in
    it. Contributions of `forgotten` devices do not count."""

    ends: _Offsets
    forgotten: Annotated[tuple[_Device, ...], msgspec.Meta(max_length=MAX_FORGOTTEN)] = ()


class Opened(_OfStage, frozen=True, tag="opened"):
    """Which of the stage's contributions a party opened: bit i of `opened` (the least significant
    bit of byte 0 first) is that of contribution i in canonical order, of `count`. `records`
    identifies all of them and their contents."""

    party: _Party
    count: Annotated[int, msgspec.Meta(ge=0, le=MAX_CONTRIBUTIONS)]
    records: _RecordsDigest
    opened: Annotated[bytes, msgspec.Meta(max_length=MAX_CONTRIBUTIONS // 8)]

    def __post_init__(self) -> None:
        spare = -self.count % 8
        if len(self.opened) * 8 != self.count + spare:
            raise ValueError(f"{len(self.opened)} bytes of bits for {self.count} contributions")
        if spare and self.opened[-1] >> (8 - spare):
            raise ValueError(f"bits beyond the {self.count} contributions")


class Checks(_OfStage, frozen=True, tag="checks"):
    """What a party says of the proofs in the contributions that both opened, from the one numbered
    `start` of these on: `CHECK_BYTES` of each (`campaigns/verified/norm_proof.py`)."""

    party: _Party
    start: Annotated[int, msgspec.Meta(ge=0, lt=MAX_CONTRIBUTIONS)]
    messages: Annotated[bytes, msgspec.Meta(min_length=1, max_length=CHECK_BYTES * MOST_CHECKS)]

    def __post_init__(self) -> None:
        if len(self.messages) % CHECK_BYTES:
            raise ValueError(f"{len(self.messages)} bytes of checks: each has {CHECK_BYTES}")


class NoisyShare(_OfStage, frozen=True, tag="share"):
    """A party's sum over the contributions `records` that count, with its noise: of one party
    uint32 integers modulo 2^32, of two 6 bytes each, modulo 2^48 - 65; little-endian. The sum over
    all parties is the result."""

    party: _Party
    records: _RecordsDigest
    integers: Annotated[bytes, msgspec.Meta(min_length=4, max_length=6 * MAX_INTEGERS)]


class Abort(_OfStage, frozen=True, tag="abort"):
    """The stage and its campaign end without a result."""

    reason: AbortReason


RoundEntry = Planned | Open | Close | Opened | Checks | NoisyShare | Abort

_encoder = msgspec.msgpack.Encoder(enc_hook=encode_rational)
_decoder = msgspec.msgpack.Decoder(RoundEntry, dec_hook=decode_rational)


def encode_round(entry: RoundEntry) -> bytes:
    """Return the entry as MessagePack; raises ValueError for one that no reader takes."""
    value = _encoder.encode(entry)
    if len(value) > MAX_ROUND_BYTES:
        raise ValueError(
            f"an entry of {len(value)} bytes: the log of rounds takes {MAX_ROUND_BYTES}; name a "
            "smaller scope"
        )
    if isinstance(entry, Planned) and (size := len(encode_plan(entry.campaign))) > MAX_PLAN_BYTES:
        raise ValueError(
            f"a plan of {size} bytes as JSON: the cut log takes {MAX_PLAN_BYTES}; name a smaller "
            "scope"
        )
    return value


def decode_round(value: bytes | None) -> RoundEntry:
    """Return the entry in a record's value; raises `WireError` and nothing else."""
    entry: RoundEntry = checked(_decoder.decode, value, MAX_ROUND_BYTES)
    if isinstance(entry, Planned):
        if entry.campaign.v != VERSION:
            raise WireError(Reason.UNKNOWN_VERSION)
        if len(encode_plan(entry.campaign)) > MAX_PLAN_BYTES:
            raise WireError(Reason.TOO_LARGE)
    return entry

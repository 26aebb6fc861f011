"""What a device sends in a stage: one sealed box for each party, in one record.

    key    the pseudonym, 32 hex characters
    value  MessagePack {"v":1, "plan":32 bytes, "stage":0, "device":16 bytes, "boxes":[bytes, ..]}

The boxes travel together or not at all. Their sizes follow from the plan alone, so a record shows
that a device takes part in a stage and nothing else:

    48 + 32 + payload bytes    sealing, context, and what `campaigns/sealing.py` puts in

`stage` is the index in the plan. Where devices sign, the value is an envelope (`signatures`) of
these bytes, signed for `SIGNED_AS` instead of a topic: the digest of the plan names the campaign.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Annotated

import msgspec

from stream_app.wire.campaigns.plan import DIGEST_BYTES
from stream_app.wire.decoding import checked
from stream_app.wire.ids import partition_of
from stream_app.wire.limits import (
    DEVICE_BYTES,
    MAX_CONTRIBUTION_BYTES,
    MAX_STAGES,
    VERSION,
)
from stream_app.wire.reasons import Reason, WireError
from stream_app.wire.signatures import ENVELOPE, HEAD_BYTES, Signatures, opened

SEAL_BYTES = 48  # of libsodium's sealed box: an ephemeral public key and a tag
CONTEXT_BYTES = 32
SIGNED_AS = "contribution 1"  # no topic has this name
_PERSON = b"murmurec.box.1"

StageIndex = Annotated[int, msgspec.Meta(ge=0, lt=MAX_STAGES)]
PlanDigest = Annotated[bytes, msgspec.Meta(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]
_Box = Annotated[
    bytes, msgspec.Meta(min_length=SEAL_BYTES + CONTEXT_BYTES, max_length=MAX_CONTRIBUTION_BYTES)
]


class Contribution(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A device's vector of one stage, a box for each party."""

    plan: PlanDigest
    stage: StageIndex
    device: Annotated[bytes, msgspec.Meta(min_length=DEVICE_BYTES, max_length=DEVICE_BYTES)]
    boxes: Annotated[tuple[_Box, ...], msgspec.Meta(min_length=1, max_length=2)]
    v: int = VERSION

    @property
    def key(self) -> bytes:
        """The record key: the pseudonym as 32 hex characters."""
        return self.device.hex().encode()


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Contribution)


def encode_contribution(contribution: Contribution) -> bytes:
    """Return the contribution as MessagePack."""
    return _encoder.encode(contribution)


def decode_value(value: bytes | None) -> Contribution:
    """Return the contribution in the value of a record, in an envelope or not, whose signature is
    not looked at; raises `WireError` and nothing else."""
    if value and value[0] == ENVELOPE:
        value = value[HEAD_BYTES:]
    found: Contribution = checked(_decoder.decode, value, MAX_CONTRIBUTION_BYTES)
    return found


def decode_contribution(
    record_key: bytes | None,
    value: bytes | None,
    partition: int,
    partitions: int,
    *,
    signed: bool = False,
) -> Contribution:
    """Return the contribution in one record, of a plan that takes `signed` ones alone or any;
    raises `WireError` and nothing else.

    A device has one partition, so its first record is the same for every reader.
    """
    signatures = Signatures(SIGNED_AS, signed)
    events = opened([record_key], [value], signatures, MAX_CONTRIBUTION_BYTES)
    if events is not None:
        (value,), refused = events
        if refused[0]:
            raise WireError(Reason.BAD_SIGNATURE)
    found: Contribution = checked(_decoder.decode, value, MAX_CONTRIBUTION_BYTES)
    if record_key != found.key:
        raise WireError(Reason.KEY_MISMATCH)
    if partition_of(record_key, partitions) != partition:
        raise WireError(Reason.WRONG_PARTITION)
    return found


def box_context(plan: bytes, stage: int, device: bytes, party: int) -> bytes:
    """Return what a box begins with: it counts for this plan, stage, device and party alone.

    A box is not bound to its record by the sealing itself, so a copy of it could stand in the
    record of another device or of another stage.
    """
    body = plan + stage.to_bytes(4, "little") + device + party.to_bytes(4, "little")
    return blake2b(body, digest_size=CONTEXT_BYTES, person=_PERSON).digest()

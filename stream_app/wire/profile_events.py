"""A sanitized profile of a device: MessagePack, keyed by the pseudonym; the newest one counts.

    {"v":1, "device":16 bytes, "seq":1, "mechanism":"blip:5000:20:8", "epoch":20000,
     "profile":bytes}

The mechanism defines the layout of `profile`. A device spends budget on each profile and sends at
most one per epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import msgspec

from stream_app.wire.decoding import checked
from stream_app.wire.events import Epoch, Name, Seq
from stream_app.wire.limits import DEVICE_BYTES, MAX_PROFILE_BYTES, VERSION
from stream_app.wire.reasons import Reason, WireError


class PackedProfile(msgspec.Struct, forbid_unknown_fields=True):
    """The MessagePack schema."""

    v: int
    device: Annotated[bytes, msgspec.Meta(min_length=DEVICE_BYTES, max_length=DEVICE_BYTES)]
    seq: Seq
    mechanism: Name
    epoch: Epoch
    profile: Annotated[bytes, msgspec.Meta(min_length=1, max_length=MAX_PROFILE_BYTES)]
    test: bool = False


_decoder = msgspec.msgpack.Decoder(PackedProfile)
_encoder = msgspec.msgpack.Encoder()


@dataclass(frozen=True, eq=False)
class ProfileEvent:
    """One device's released profile of one epoch."""

    device: bytes
    seq: int
    mechanism: str
    epoch: int
    profile: bytes
    test: bool = False

    @property
    def key(self) -> bytes:
        """The record key: the pseudonym as 32 hex characters."""
        return self.device.hex().encode()


def encode_profile(event: ProfileEvent) -> bytes:
    """Return the event as MessagePack."""
    fields = event.device, event.seq, event.mechanism, event.epoch, event.profile, event.test
    return _encoder.encode(PackedProfile(VERSION, *fields))


def decode_profile(
    record_key: bytes | None,
    value: bytes | None,
    sizes: Mapping[str, int],
    *,
    accept_tests: bool = False,
) -> ProfileEvent:
    """Return the profile in one record; raises `WireError` and nothing else.

    `sizes`: allowed mechanism id -> size of its profiles in bytes.
    """
    fields: PackedProfile = checked(_decoder.decode, value, MAX_PROFILE_BYTES + 1024)
    if record_key != fields.device.hex().encode():
        raise WireError(Reason.KEY_MISMATCH)
    size = sizes.get(fields.mechanism)
    if size is None:
        raise WireError(Reason.MECHANISM_NOT_ALLOWED)
    if len(fields.profile) != size:
        raise WireError(Reason.LENGTH_MISMATCH)
    if fields.test and not accept_tests:
        raise WireError(Reason.TEST_EVENT)
    return ProfileEvent(
        fields.device, fields.seq, fields.mechanism, fields.epoch, fields.profile, fields.test
    )

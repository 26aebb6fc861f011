"""One device's released ratings, and their two encodings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_app.wire.ids import Item, key
from stream_app.wire.limits import (
    DEVICE_BYTES,
    MAX_EXTENSION_BYTES,
    MAX_ITEM_BYTES,
    MAX_RATINGS,
    MAX_SEQ,
    VERSION,
)


@dataclass(frozen=True, eq=False)
class Event:
    """One device's released ratings: item keys (n,) uint64 beside reports (n,) uint8.

    masks (n,) uint16, where the mechanism reports over a public partition of the levels: bit v is
    set where a group ends after level v. None for every other mechanism.
    """

    device: bytes
    seq: int
    mechanism: str
    epoch: int
    items: NDArray[np.uint64]
    reports: NDArray[np.uint8]
    test: bool = False
    masks: NDArray[np.uint16] | None = None

    def __post_init__(self) -> None:
        if len(self.device) != DEVICE_BYTES:
            raise ValueError(f"device of {len(self.device)} bytes: a pseudonym has {DEVICE_BYTES}")
        if not 1 <= self.seq <= MAX_SEQ:
            raise ValueError(f"seq {self.seq}: must be 1 .. 2^62")
        if not 0 <= self.epoch < 2**32:
            raise ValueError(f"epoch {self.epoch}: must be 0 .. 2^32-1 (days since 1970)")
        if len(self.items) != len(self.reports) or not 1 <= len(self.items) <= MAX_RATINGS:
            raise ValueError(
                f"{len(self.items)} items and {len(self.reports)} reports: "
                f"an event has equally many of both, 1 to {MAX_RATINGS}"
            )
        if self.masks is not None and len(self.masks) != len(self.items):
            raise ValueError(
                f"{len(self.items)} items and {len(self.masks)} masks: give one mask per item"
            )

    @property
    def key(self) -> bytes:
        """The record key: the pseudonym as 32 hex characters."""
        return self.device.hex().encode()


Seq = Annotated[int, msgspec.Meta(ge=1, le=MAX_SEQ)]
Epoch = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
Hex32 = Annotated[str, msgspec.Meta(min_length=32, max_length=32)]
Name = Annotated[str, msgspec.Meta(max_length=64)]
IntItem = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
TextItem = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_ITEM_BYTES)]
Report = Annotated[int, msgspec.Meta(ge=0, le=255)]
Mask = Annotated[int, msgspec.Meta(ge=1, le=2**16 - 1)]
_SOME = msgspec.Meta(min_length=1, max_length=MAX_RATINGS)


class JsonAny(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """The JSON schema."""

    v: int
    device: Hex32
    seq: Seq
    mechanism: Name
    epoch: Epoch
    items: Annotated[list[IntItem | TextItem], _SOME]
    reports: Annotated[list[Report], _SOME]
    test: bool = False
    masks: Annotated[list[Mask], msgspec.Meta(max_length=MAX_RATINGS)] | msgspec.UnsetType = (
        msgspec.UNSET
    )
    x: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class JsonInts(JsonAny, gc=False):
    """The JSON schema of events whose items are all integers; decodes faster than `JsonAny`."""

    items: Annotated[list[IntItem], _SOME]  # type: ignore[assignment] # never written to


class Packed(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """The MessagePack schema."""

    v: int
    device: Annotated[bytes, msgspec.Meta(min_length=DEVICE_BYTES, max_length=DEVICE_BYTES)]
    seq: Seq
    mechanism: Name
    epoch: Epoch
    items: Annotated[bytes, msgspec.Meta(min_length=8, max_length=8 * MAX_RATINGS)]
    reports: Annotated[bytes, msgspec.Meta(min_length=1, max_length=MAX_RATINGS)]
    test: bool = False
    masks: Annotated[bytes, msgspec.Meta(max_length=2 * MAX_RATINGS)] | msgspec.UnsetType = (
        msgspec.UNSET
    )
    x: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


def ignorable(
    extension: msgspec.Raw | msgspec.UnsetType, contract: int, maps: frozenset[bytes]
) -> bool:
    """Return whether the extension block of an event is to be ignored; else the event is malformed.

    Under contract 1 an event has none. From contract 2 on it may have one: a map of at most
    `MAX_EXTENSION_BYTES`, whose fields have a meaning for later releases only. The bound is far
    below the depth at which a decoder gives up, which differs between releases. `maps` has the
    first bytes of a map in the event's encoding: in MessagePack the `{` of JSON is the number 123.
    """
    if extension is msgspec.UNSET:
        return True
    block = bytes(extension)
    return contract >= 2 and len(block) <= MAX_EXTENSION_BYTES and block[:1] in maps


JSON_MAPS = frozenset({b"{"})
PACKED_MAPS = frozenset(bytes([first]) for first in (*range(0x80, 0x90), 0xDE, 0xDF))
_packed_encoder = msgspec.msgpack.Encoder()
_json_encoder = msgspec.json.Encoder()


def encode(event: Event) -> bytes:
    """Return the event as MessagePack with binary columns, the compact encoding."""
    masks: bytes | msgspec.UnsetType = msgspec.UNSET
    if event.masks is not None:
        masks = event.masks.astype("<u2", copy=False).tobytes()
    items = event.items.astype("<u8", copy=False).tobytes()
    reports = event.reports.astype(np.uint8, copy=False).tobytes()
    head = VERSION, event.device, event.seq, event.mechanism, event.epoch
    return _packed_encoder.encode(Packed(*head, items, reports, event.test, masks))


def encode_json(event: Event, items: Sequence[Item] | None = None) -> bytes:
    """Return the event as JSON; `items` are the item ids, required if any of them is a string."""
    names: Sequence[Item] = [int(k) for k in event.items] if items is None else items
    if [key(name) for name in names] != [int(k) for k in event.items]:
        raise ValueError("items do not match the event's keys; string items must be given by name")
    fields: dict[str, Any] = {
        "v": VERSION,
        "device": event.device.hex(),
        "seq": event.seq,
        "mechanism": event.mechanism,
        "epoch": event.epoch,
        "items": list(names),
        "reports": [int(r) for r in event.reports],
    }
    if event.test:
        fields["test"] = True
    if event.masks is not None:
        fields["masks"] = [int(mask) for mask in event.masks]
    return _json_encoder.encode(fields)

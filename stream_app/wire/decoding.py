"""The rules by which a server accepts events, and the decoder of one record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_app.wire.events import JSON_MAPS, PACKED_MAPS, Event, JsonAny, Packed, ignorable
from stream_app.wire.ids import key, partition_of, partitions_of
from stream_app.wire.limits import MAX_BATCH_BYTES, MAX_EVENT_BYTES, PARTITIONS, VERSION
from stream_app.wire.reasons import Reason, WireError
from stream_app.wire.signatures import ENVELOPE, Signatures, envelope_device, opened


class _Unreadable(bytes):
    """The value of a record that the broker holds and no client can read; it has no bytes."""


# A record of a batch that expands beyond what a reader takes. Compared by identity: bytes that a
# device sends are never this object.
UNREADABLE = _Unreadable()
_MOST_KEY_BYTES = 256
_ENVELOPE = bytes([ENVELOPE])

_json_any = msgspec.json.Decoder(JsonAny)
_packed = msgspec.msgpack.Decoder(Packed)


class Reported(Protocol):
    """What the rules need to know of a mechanism."""

    @property
    def id(self) -> str:
        """Family, levels and epsilon."""

    @property
    def alphabet(self) -> int:
        """How many different reports there are."""

    @property
    def levels(self) -> int:
        """How many levels the scale has."""

    @property
    def masks(self) -> range:
        """The masks that may stand beside a report; empty where none does."""


@dataclass(frozen=True)
class Intake:
    """Rules of a server: mechanism id -> alphabet, in a fixed order; partitions; test events; the
    version of the event format in force (`cut_log.Contract`).

    `masked` maps each mechanism whose events carry a mask beside every report to its number of
    levels. A mask has `levels - 1` bits, one for each place where a group of levels may end; at
    least one is set. The report is the number of a group. `signatures`: of which topic signatures
    are checked, and whether every event needs one. A mechanism in `withdrawn` keeps its place in
    the order and its number, and its events are rejected.
    """

    mechanisms: Mapping[str, int]
    partitions: int = PARTITIONS
    accept_tests: bool = False
    masked: Mapping[str, int] = field(default_factory=dict)
    contract: int = 1
    signatures: Signatures = field(default_factory=Signatures)
    withdrawn: frozenset[str] = frozenset()
    index: Mapping[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name, alphabet in self.mechanisms.items():
            if not 1 <= alphabet <= 256:
                raise ValueError(f"mechanism {name}: alphabet {alphabet} is not in 1 .. 256")
        for name, levels in self.masked.items():
            if name not in self.mechanisms or not 2 <= levels <= 17:
                raise ValueError(f"mechanism {name}: masks are for 2 to 17 levels, not {levels}")
        numbered = {name: i for i, name in enumerate(self.mechanisms) if name not in self.withdrawn}
        object.__setattr__(self, "index", numbered)

    @classmethod
    def of_mechanisms(
        cls,
        mechanisms: Iterable[Reported],
        partitions: int,
        accept_tests: bool = False,
        signatures: Signatures | None = None,
    ) -> Intake:
        """Return the rules of a server that allows these mechanisms."""
        allowed = tuple(mechanisms)
        alphabets = {each.id: each.alphabet for each in allowed}
        masked = {each.id: each.levels for each in allowed if each.masks}
        checked = signatures or Signatures()
        return cls(alphabets, partitions, accept_tests, masked, signatures=checked)


def held(record_key: bytes | None, value: bytes | None) -> tuple[bytes | None, bytes | None]:
    """Return a record as a reader holds it: of one that is rejected for its size, no more than
    that. Kafka takes a larger key or value only where a topic is not as the table has it."""
    if record_key is not None and len(record_key) > _MOST_KEY_BYTES:
        record_key = record_key[:_MOST_KEY_BYTES]
    if value is not None and len(value) > MAX_BATCH_BYTES:
        value = value[:MAX_BATCH_BYTES]
    return record_key, value


def decode(record_key: bytes | None, value: bytes | None, partition: int, intake: Intake) -> Event:
    """Return the event in one record; raises `WireError(reason)` and no other error."""
    found = opened([record_key], [value], intake.signatures, MAX_EVENT_BYTES)
    if found is not None:
        (value,), refused = found
        if refused[0]:
            raise WireError(Reason.BAD_SIGNATURE)
    return decode_event(record_key, value, partition, intake)


def decode_event(
    record_key: bytes | None, value: bytes | None, partition: int, intake: Intake
) -> Event:
    """Return the event in a record without an envelope; raises `WireError(reason)`."""
    columns = _columns(value, intake.contract)
    if record_key != columns[0].hex().encode():
        raise WireError(Reason.KEY_MISMATCH)
    key_row = np.frombuffer(record_key, np.uint8).reshape(1, 32)
    if partitions_of(key_row, intake.partitions)[0] != partition:
        raise WireError(Reason.WRONG_PARTITION)
    return _allowed(columns, intake)


def decode_unaddressed(value: bytes, intake: Intake) -> tuple[Event, int]:
    """Return the event in the value of a record that is still to be written, and its partition;
    raises `WireError(reason)`. The record's key is the event's."""
    device = None if len(value) > MAX_EVENT_BYTES else envelope_device(value)
    if device is not None:
        record_key = device.hex().encode()
        partition = partition_of(record_key, intake.partitions)
        return decode(record_key, value, partition, intake), partition
    unsigned = intake.signatures.required or value[:1] == _ENVELOPE
    if unsigned and 0 < len(value) <= MAX_EVENT_BYTES:
        raise WireError(Reason.BAD_SIGNATURE)
    event = _allowed(_columns(value, intake.contract), intake)
    return event, partition_of(event.key, intake.partitions)


def _columns(value: bytes | None, contract: int) -> _Columns:
    if not value:
        raise WireError(Reason.UNREADABLE if value is UNREADABLE else Reason.EMPTY)
    if len(value) > MAX_EVENT_BYTES:
        raise WireError(Reason.TOO_LARGE)
    return _decode_json(value, contract) if value[0] == 0x7B else _decode_packed(value, contract)


def _allowed(columns: _Columns, intake: Intake) -> Event:
    """Return the event of the columns, if the rules of the server allow it."""
    device, fields, items, reports, masks = columns
    if fields.mechanism not in intake.index:
        raise WireError(Reason.MECHANISM_NOT_ALLOWED)
    alphabet = intake.mechanisms[fields.mechanism]
    if len(items) != len(reports):
        raise WireError(Reason.LENGTH_MISMATCH)
    if int(reports.max()) >= alphabet:
        raise WireError(Reason.REPORT_OUTSIDE_ALPHABET)
    levels = intake.masked.get(fields.mechanism)
    if (levels is None) != (masks is None):
        raise WireError(Reason.BAD_MASK)
    if levels is not None and masks is not None:
        if len(masks) != len(items):
            raise WireError(Reason.LENGTH_MISMATCH)
        if not masks_fit(masks, levels):
            raise WireError(Reason.BAD_MASK)
        if (reports > LAST_GROUP[masks]).any():
            raise WireError(Reason.REPORT_OUTSIDE_ALPHABET)
    if fields.test and not intake.accept_tests:
        raise WireError(Reason.TEST_EVENT)
    return Event(
        device, fields.seq, fields.mechanism, fields.epoch, items, reports, fields.test, masks
    )


def _last_groups() -> NDArray[np.uint8]:
    last = np.zeros(1, np.uint8)
    for _ in range(16):
        last = np.concatenate((last, last + np.uint8(1)))
    return last


LAST_GROUP = _last_groups()  # of each mask: its number of set bits


def masks_fit(masks: NDArray[np.uint16], levels: int | NDArray[np.int64]) -> bool:
    """Return whether every mask has a set bit and no bit beyond the levels."""
    return bool(((masks > 0) & (masks.astype(np.int64) < (1 << (np.int64(levels) - 1)))).all())


_Columns = tuple[
    bytes, JsonAny | Packed, NDArray[np.uint64], NDArray[np.uint8], NDArray[np.uint16] | None
]


def _decode_json(value: bytes, contract: int) -> _Columns:
    try:
        fields = _json_any.decode(value)
        if not ignorable(fields.x, contract, JSON_MAPS):
            raise WireError(version_reason(value))
        device = bytes.fromhex(fields.device)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise WireError(version_reason(value)) from None
    except ValueError:
        raise WireError(Reason.BAD_DEVICE) from None
    if fields.v != VERSION:
        raise WireError(Reason.UNKNOWN_VERSION)
    if device.hex() != fields.device:
        raise WireError(Reason.BAD_DEVICE)
    try:
        items = np.array([key(item) for item in fields.items], np.uint64)
    except ValueError:
        raise WireError(Reason.BAD_ITEM) from None
    masks = None if fields.masks is msgspec.UNSET else np.array(fields.masks, np.uint16)
    return device, fields, items, np.array(fields.reports, np.uint8), masks


def _decode_packed(value: bytes, contract: int) -> _Columns:
    try:
        fields = _packed.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise WireError(version_reason(value)) from None
    if not ignorable(fields.x, contract, PACKED_MAPS):
        raise WireError(version_reason(value))
    if fields.v != VERSION:
        raise WireError(Reason.UNKNOWN_VERSION)
    if len(fields.items) % 8:
        raise WireError(Reason.BAD_ITEM)
    items = np.frombuffer(fields.items, "<u8").astype(np.uint64, copy=False)
    reports = np.frombuffer(fields.reports, np.uint8)
    if fields.masks is msgspec.UNSET:
        return fields.device, fields, items, reports, None
    if len(fields.masks) % 2:
        raise WireError(Reason.BAD_MASK)
    masks = np.frombuffer(fields.masks, "<u2").astype(np.uint16, copy=False)
    return fields.device, fields, items, reports, masks


def checked(decode: Callable[[bytes], Any], value: bytes | None, most: int) -> Any:
    """Return the message of this version in a record's value of at most so many bytes; raises
    `WireError` and nothing else."""
    if not value:
        raise WireError(Reason.EMPTY)
    if len(value) > most:
        raise WireError(Reason.TOO_LARGE)
    try:
        found = decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise WireError(version_reason(value)) from None
    if found.v != VERSION:
        raise WireError(Reason.UNKNOWN_VERSION)
    return found


def version_reason(value: bytes) -> Reason:
    """Return UNKNOWN_VERSION for a later version of the schema, MALFORMED for any other bytes."""
    decoder = msgspec.json.decode if value[0] == 0x7B else msgspec.msgpack.decode
    try:
        fields = decoder(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError, OverflowError):
        return Reason.MALFORMED
    version = fields.get("v") if isinstance(fields, dict) else None
    later = isinstance(version, int) and not isinstance(version, bool) and version != VERSION
    return Reason.UNKNOWN_VERSION if later else Reason.MALFORMED

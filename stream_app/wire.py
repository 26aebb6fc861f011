"""The contract: topics, ids, events, queries, replies, cuts, and the reasons why a record is set
aside.

One rating topic carries one schema in two encodings, told apart by the first byte:

    JSON         {"v":1, "device":"<32 hex>", "seq":1, "mechanism":"rr:5:2", "epoch":20000,
                  "items":[1193], "reports":[4]}
    MessagePack  the same map; `device` 16 raw bytes, `items` uint64 and `reports` uint8 columns,
                 little-endian

The whole contract stands in this one file, past the usual length, because whoever speaks to the
server in another language reads it from top to bottom.

`decode` reads one record, `decode_many` a batch with vectorised checks; both accept and refuse
exactly the same records, and refuse with nothing but `WireError(reason)`.

What must hold for every event: version 1; the record key is the device's pseudonym in lower-case
hex and the record lies on that key's partition (murmur2); `seq` >= 1; the mechanism is on the
server's allow-list; as many reports as items, between 1 and `MAX_RATINGS`; every report lies in the
mechanism's alphabet.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b
from itertools import chain
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

VERSION = 1
MAX_EVENT_BYTES = 128 * 1024
MAX_RATINGS = 4096
MAX_ITEM_BYTES = 128
MAX_SEQ = 2**62
MAX_SEQ_JUMP = 2**20
LIST_LENGTH = 100
PARTITIONS = 4
DEVICE_BYTES = 16
EPOCH_SECONDS = 86_400
_STRING_ITEM = np.uint64(1 << 63)


class Reason(StrEnum):
    """Why a record is set aside; the only thing besides its size that is ever told about it."""

    ACCEPTED = "accepted"
    EMPTY = "empty"
    TOO_LARGE = "too_large"
    MALFORMED = "malformed"
    UNKNOWN_VERSION = "unknown_version"
    BAD_DEVICE = "bad_device"
    KEY_MISMATCH = "key_mismatch"
    WRONG_PARTITION = "wrong_partition"
    MECHANISM_NOT_ALLOWED = "mechanism_not_allowed"
    BAD_ITEM = "bad_item"
    LENGTH_MISMATCH = "length_mismatch"
    REPORT_OUTSIDE_ALPHABET = "report_outside_alphabet"
    TEST_EVENT = "test_event"
    SEQ_JUMP = "seq_jump"


REASONS: tuple[Reason, ...] = tuple(Reason)
REASON_CODE: Mapping[Reason, int] = {reason: code for code, reason in enumerate(REASONS)}


class WireError(Exception):
    """A record that is not what its topic promises; `reason` is all that may be told about it."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(str(reason))
        self.reason = reason


# --- topics -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Topic:
    """One row of the table of topics."""

    name: str
    key: str
    value: str
    partitions: int
    config: Mapping[str, str]


@dataclass(frozen=True)
class Topics:
    """The names of all topics under one prefix; `table` says how each is created."""

    prefix: str = "murmurec"

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,100}", self.prefix):
            raise ValueError(f"topic prefix {self.prefix!r}: use 1 to 100 of A-Z a-z 0-9 . _ -")

    @property
    def ratings(self) -> str:
        """Sanitized ratings, from devices."""
        return f"{self.prefix}.ratings.v1"

    @property
    def items(self) -> str:
        """The public catalogue."""
        return f"{self.prefix}.items.v1"

    @property
    def cuts(self) -> str:
        """The cut log, written by workers only."""
        return f"{self.prefix}.cuts.v1"

    @property
    def queries(self) -> str:
        """Questions for recommendations."""
        return f"{self.prefix}.queries.v1"

    @property
    def recommendations(self) -> str:
        """Answers, keyed by the question's correlation id."""
        return f"{self.prefix}.recommendations.v1"

    @property
    def rejected(self) -> str:
        """Where and why a record was set aside; never its payload."""
        return f"{self.prefix}.rejected.v1"

    @property
    def audits(self) -> str:
        """What attacks and audits found."""
        return f"{self.prefix}.audits.v1"

    def table(self, partitions: int = PARTITIONS) -> tuple[Topic, ...]:
        """Return every topic with its key, value, partitions and configuration."""
        forever = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
        an_hour = {"cleanup.policy": "delete", "retention.ms": "3600000"}
        newest = {"cleanup.policy": "compact"}
        return (
            Topic(self.ratings, "pseudonym, 32 hex", "event", partitions, forever),
            Topic(self.cuts, "none", "cut", 1, forever),
            Topic(self.items, "item id", "catalogue entry", 1, newest),
            Topic(self.queries, "correlation id", "query", partitions, an_hour),
            Topic(self.recommendations, "correlation id", "recommendation", partitions, an_hour),
            Topic(self.rejected, "topic/partition/offset", "rejection", 1, newest),
            Topic(self.audits, "audit name", "audit", 1, newest),
        )


# --- ids --------------------------------------------------------------------------------------

Item = int | str


def key(item: Item) -> int:
    """Return the 64-bit key of an item: an integer is itself, a string its blake2b-64 with the top
    bit set.

    Raises ValueError for an integer outside 0 .. 2^63-1 and for a string that is empty, longer than
    `MAX_ITEM_BYTES` in UTF-8, or not encodable (a lone surrogate).
    """
    if isinstance(item, bool) or not isinstance(item, int | str):
        # A ValueError like every other refusal of an item: a caller treats them alike.
        raise ValueError(f"item {item!r}: an item is an integer or a string")  # noqa: TRY004
    if isinstance(item, int):
        if not 0 <= item < 2**63:
            raise ValueError(f"item {item}: an integer item lies in 0 .. 2^63-1")
        return item
    try:
        text = item.encode()
    except UnicodeEncodeError:
        raise ValueError("item: a string item must be valid Unicode (no lone surrogate)") from None
    if not 1 <= len(text) <= MAX_ITEM_BYTES:
        raise ValueError(
            f"item of {len(text)} bytes: a string item has 1 to {MAX_ITEM_BYTES} bytes of UTF-8"
        )
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big") | (1 << 63)


def parse_item(text: str) -> Item:
    """Return the item that a person typed: a number if it is one, else the string itself."""
    return int(text) if re.fullmatch(r"[0-9]{1,19}", text) and int(text) < 2**63 else text


def user_key(device: bytes) -> int:
    """Return the 64-bit key under which a learner knows a device: the first half of its
    pseudonym."""
    return int.from_bytes(device[:8], "little")


def partitions_of(keys: NDArray[np.uint8], partitions: int) -> NDArray[np.int64]:
    """Return the partition of each (n, 32) record key, as Kafka's murmur2 partitioner does."""
    with np.errstate(over="ignore"):
        m = np.uint32(0x5BD1E995)
        words = np.ascontiguousarray(keys).view("<u4").astype(np.uint32, copy=False)
        h = np.full(len(keys), np.uint32(0x9747B28C ^ 32), np.uint32)
        for column in range(8):
            k = words[:, column] * m
            k ^= k >> np.uint32(24)
            h = (h * m) ^ (k * m)
        h ^= h >> np.uint32(13)
        h *= m
        h ^= h >> np.uint32(15)
    return (h & np.uint32(0x7FFFFFFF)).astype(np.int64) % partitions


# --- events -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Event:
    """One device's released ratings: item keys (n,) uint64 beside reports (n,) uint8."""

    device: bytes
    seq: int
    mechanism: str
    epoch: int
    items: NDArray[np.uint64]
    reports: NDArray[np.uint8]
    test: bool = False

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
_SOME = msgspec.Meta(min_length=1, max_length=MAX_RATINGS)


class _JsonInts(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    v: int
    device: Hex32
    seq: Seq
    mechanism: Name
    epoch: Epoch
    items: Annotated[list[IntItem], _SOME]
    reports: Annotated[list[Report], _SOME]
    test: bool = False


class _JsonAny(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    v: int
    device: Hex32
    seq: Seq
    mechanism: Name
    epoch: Epoch
    items: Annotated[list[IntItem | TextItem], _SOME]
    reports: Annotated[list[Report], _SOME]
    test: bool = False


class _Packed(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    v: int
    device: Annotated[bytes, msgspec.Meta(min_length=DEVICE_BYTES, max_length=DEVICE_BYTES)]
    seq: Seq
    mechanism: Name
    epoch: Epoch
    items: Annotated[bytes, msgspec.Meta(min_length=8, max_length=8 * MAX_RATINGS)]
    reports: Annotated[bytes, msgspec.Meta(min_length=1, max_length=MAX_RATINGS)]
    test: bool = False


_json_any = msgspec.json.Decoder(_JsonAny)
_json_run: msgspec.json.Decoder[list[Any]] = msgspec.json.Decoder(list[_JsonInts | str])
_packed = msgspec.msgpack.Decoder(_Packed)
_packed_encoder = msgspec.msgpack.Encoder()
_json_encoder = msgspec.json.Encoder()


def encode(event: Event) -> bytes:
    """Return the event as MessagePack with binary columns, the form for volume."""
    return _packed_encoder.encode(
        _Packed(
            VERSION,
            event.device,
            event.seq,
            event.mechanism,
            event.epoch,
            event.items.astype("<u8", copy=False).tobytes(),
            event.reports.astype(np.uint8, copy=False).tobytes(),
            event.test,
        )
    )


def encode_json(event: Event, items: Sequence[Item] | None = None) -> bytes:
    """Return the event as JSON; `items` are the ids as people write them, needed where one is a
    string."""
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
    return _json_encoder.encode(fields | {"test": True} if event.test else fields)


@dataclass(frozen=True)
class Intake:
    """What a server accepts: mechanism id -> alphabet, in a fixed order; partitions; test
    events."""

    mechanisms: Mapping[str, int]
    partitions: int = PARTITIONS
    accept_tests: bool = False
    index: Mapping[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name, alphabet in self.mechanisms.items():
            if not 1 <= alphabet <= 256:
                raise ValueError(f"mechanism {name}: alphabet {alphabet} is not in 1 .. 256")
        object.__setattr__(self, "index", {name: i for i, name in enumerate(self.mechanisms)})


def decode(record_key: bytes | None, value: bytes | None, partition: int, intake: Intake) -> Event:
    """Return the event in one record; raises `WireError(reason)` and never anything else."""
    if not value:
        raise WireError(Reason.EMPTY)
    if len(value) > MAX_EVENT_BYTES:
        raise WireError(Reason.TOO_LARGE)
    if value[0] == 0x7B:
        device, fields, items, reports = _decode_json(value)
    else:
        device, fields, items, reports = _decode_packed(value)
    if record_key != device.hex().encode():
        raise WireError(Reason.KEY_MISMATCH)
    where = np.frombuffer(record_key, np.uint8).reshape(1, 32)
    if partitions_of(where, intake.partitions)[0] != partition:
        raise WireError(Reason.WRONG_PARTITION)
    alphabet = intake.mechanisms.get(fields.mechanism)
    if alphabet is None:
        raise WireError(Reason.MECHANISM_NOT_ALLOWED)
    if len(items) != len(reports):
        raise WireError(Reason.LENGTH_MISMATCH)
    if int(reports.max()) >= alphabet:
        raise WireError(Reason.REPORT_OUTSIDE_ALPHABET)
    if fields.test and not intake.accept_tests:
        raise WireError(Reason.TEST_EVENT)
    return Event(device, fields.seq, fields.mechanism, fields.epoch, items, reports, fields.test)


_Columns = tuple[bytes, _JsonAny | _Packed, NDArray[np.uint64], NDArray[np.uint8]]


def _decode_json(value: bytes) -> _Columns:
    try:
        fields = _json_any.decode(value)
        device = bytes.fromhex(fields.device)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise WireError(_version_reason(value)) from None
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
    return device, fields, items, np.array(fields.reports, np.uint8)


def _decode_packed(value: bytes) -> _Columns:
    try:
        fields = _packed.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise WireError(_version_reason(value)) from None
    if fields.v != VERSION:
        raise WireError(Reason.UNKNOWN_VERSION)
    if len(fields.items) % 8:
        raise WireError(Reason.BAD_ITEM)
    items = np.frombuffer(fields.items, "<u8").astype(np.uint64, copy=False)
    return fields.device, fields, items, np.frombuffer(fields.reports, np.uint8)


def _version_reason(value: bytes) -> Reason:
    """Tell a later version of the schema from bytes that are no event at all."""
    decoder = msgspec.json.decode if value[0] == 0x7B else msgspec.msgpack.decode
    try:
        fields = decoder(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError, OverflowError):
        return Reason.MALFORMED
    version = fields.get("v") if isinstance(fields, dict) else None
    later = isinstance(version, int) and not isinstance(version, bool) and version != VERSION
    return Reason.UNKNOWN_VERSION if later else Reason.MALFORMED


@dataclass(frozen=True, eq=False)
class Run:
    """Consecutive records of one partition as the broker delivered them: offsets, keys and values
    (n,)."""

    partition: int
    offsets: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]


@dataclass(frozen=True, eq=False)
class Batch:
    """A run decoded into columns; n records, m ratings.

    offsets, seqs (n,) int64; sizes (n,) int64 in bytes; devices (n, 2) uint64, the pseudonym as two
    little-endian words; mechanisms (n,) uint8, an index into the allow-list; counts (n,) int64
    ratings per record; reasons (n,) uint8, an index into `REASONS` (0: accepted); items (m,) uint64
    and reports (m,) uint8. A record that is set aside has count 0 and zero fields.
    """

    partition: int
    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]
    devices: NDArray[np.uint64]
    seqs: NDArray[np.int64]
    mechanisms: NDArray[np.uint8]
    counts: NDArray[np.int64]
    reasons: NDArray[np.uint8]
    items: NDArray[np.uint64]
    reports: NDArray[np.uint8]

    @property
    def records(self) -> int:
        """Number of records."""
        return len(self.offsets)

    @property
    def ratings(self) -> int:
        """Number of ratings in the accepted records."""
        return len(self.items)


# A string between two records of a joined run; unguessable, so that no record can span two places.
_SEPARATOR = secrets.token_hex(16)
_SEPARATOR_JSON = f',"{_SEPARATOR}",'.encode()

_Decoded = tuple[
    NDArray[np.uint64],
    NDArray[np.int64],
    NDArray[np.uint8],
    NDArray[np.int64],
    NDArray[np.uint8],
    NDArray[np.uint64],
    NDArray[np.uint8],
]


def decode_many(run: Run, intake: Intake) -> Batch:
    """Decode the records of a run into columns; equal to `decode` on each of them."""
    n = len(run.offsets)
    sizes = np.fromiter([len(value) if value else 0 for value in run.values], np.int64, n)
    columns = _decode_alike(run, sizes, intake) if n else None
    if columns is None:
        columns = _decode_each(run, intake)
    return Batch(run.partition, np.fromiter(run.offsets, np.int64, n), sizes, *columns)


def _decode_alike(run: Run, sizes: NDArray[np.int64], intake: Intake) -> _Decoded | None:
    """Decode a run of one encoding in which every record is in order; None where one is not."""
    n = len(run.offsets)
    values: Any = run.values
    if sizes.min() == 0 or sizes.max() > MAX_EVENT_BYTES:
        return None
    try:
        if set(map(len, run.keys)) != {32}:  # type: ignore[arg-type]
            return None
        key_bytes = b"".join(run.keys)  # type: ignore[arg-type]
        if values[0][0] == 0x7B:
            columns = _json_columns(values, n)
            if "".join(columns[1]).encode() != key_bytes:
                return None
            device_bytes = bytes.fromhex(key_bytes.decode())
            counts = np.fromiter(map(len, columns[5]), np.int64, n)
            items = np.fromiter(chain.from_iterable(columns[5]), np.uint64)
            reports = np.frombuffer(bytes(chain.from_iterable(columns[6])), np.uint8)
        else:
            columns = tuple(
                zip(*map(msgspec.structs.astuple, map(_packed.decode, values)), strict=True)
            )
            device_bytes = b"".join(columns[1])
            item_bytes = np.fromiter(map(len, columns[5]), np.int64, n)
            if (item_bytes & 7).any():
                return None
            counts = item_bytes >> 3
            items = np.frombuffer(b"".join(columns[5]), "<u8").astype(np.uint64, copy=False)
            reports = np.frombuffer(b"".join(columns[6]), np.uint8)
        reported = np.fromiter(map(len, columns[6]), np.int64, n)
        mechanisms = np.fromiter(map(intake.index.__getitem__, columns[3]), np.uint8, n)
    except (msgspec.MsgspecError, TypeError, ValueError, KeyError, RecursionError):
        return None
    if (
        set(columns[0]) != {VERSION}
        or (any(columns[7]) and not intake.accept_tests)
        or device_bytes.hex().encode() != key_bytes
        or not np.array_equal(counts, reported)
        or not _reports_fit(reports, mechanisms, counts, intake)
    ):
        return None
    places = partitions_of(np.frombuffer(key_bytes, np.uint8).reshape(n, 32), intake.partitions)
    if (places != run.partition).any():
        return None
    devices = np.frombuffer(device_bytes, "<u8").astype(np.uint64).reshape(n, 2)
    seqs = np.fromiter(columns[2], np.int64, n)
    return devices, seqs, mechanisms, counts, np.zeros(n, np.uint8), items, reports


def _json_columns(values: Sequence[bytes], n: int) -> tuple[Any, ...]:
    """Parse a run of JSON records in one call; ValueError unless each is exactly one event."""
    parsed = _json_run.decode(b"[" + _SEPARATOR_JSON.join(values) + b"]")
    if len(parsed) != 2 * n - 1 or parsed[1::2].count(_SEPARATOR) != n - 1:
        raise ValueError("a record is not exactly one event")
    return tuple(zip(*map(msgspec.structs.astuple, parsed[::2]), strict=True))


def _reports_fit(
    reports: NDArray[np.uint8],
    mechanisms: NDArray[np.uint8],
    counts: NDArray[np.int64],
    intake: Intake,
) -> bool:
    alphabets = np.array(list(intake.mechanisms.values()), np.int64)
    if int(reports.max()) < alphabets[mechanisms].min():
        return True
    return bool((reports < np.repeat(alphabets[mechanisms], counts)).all())


def _decode_each(run: Run, intake: Intake) -> _Decoded:
    """Decode record by record: the same columns, with a reason for each that is set aside."""
    n = len(run.offsets)
    devices = np.zeros((n, 2), np.uint64)
    seqs = np.zeros(n, np.int64)
    mechanisms = np.zeros(n, np.uint8)
    counts = np.zeros(n, np.int64)
    reasons = np.zeros(n, np.uint8)
    items, reports = [np.empty(0, np.uint64)], [np.empty(0, np.uint8)]
    for i, (record_key, value) in enumerate(zip(run.keys, run.values, strict=True)):
        try:
            event = decode(record_key, value, run.partition, intake)
        except WireError as error:
            reasons[i] = REASON_CODE[error.reason]
            continue
        devices[i] = np.frombuffer(event.device, "<u8")
        seqs[i] = event.seq
        mechanisms[i] = intake.index[event.mechanism]
        counts[i] = len(event.items)
        items.append(event.items)
        reports.append(event.reports)
    return (
        devices,
        seqs,
        mechanisms,
        counts,
        reasons,
        np.concatenate(items),
        np.concatenate(reports),
    )


# --- cuts, queries, replies, rejections, catalogue ----------------------------------------------


class Cut(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The end of a round: `ends[p]` is the first offset of partition p that is not in it.

    `design` is the fingerprint of what the writer learns with: a worker that learns otherwise reads
    the same cuts, but its state is another one, and it says so.
    """

    number: Annotated[int, msgspec.Meta(ge=1, le=MAX_SEQ)]
    ends: Annotated[
        tuple[Annotated[int, msgspec.Meta(ge=0, le=MAX_SEQ)], ...], msgspec.Meta(min_length=1)
    ]
    epoch: Epoch
    design: Annotated[str, msgspec.Meta(max_length=32)] = ""
    v: int = VERSION


class Query(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question for the best k items of a user; `deadline` in milliseconds since 1970."""

    id: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{16,64}$")]
    user: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
    k: Annotated[int, msgspec.Meta(ge=1, le=LIST_LENGTH)]
    deadline: Annotated[int, msgspec.Meta(ge=0, le=MAX_SEQ)]
    v: int = VERSION


class Status(StrEnum):
    """How a query ended."""

    OK = "ok"
    REFUSED = "refused"
    BUSY = "busy"


class Recommendation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An answer: always `LIST_LENGTH` entries, best first, null where there are fewer.

    `as_of` is the cut the answer contains at least; `method` how the candidates were found;
    `privacy` the modes of the mechanisms whose reports the answer is made of.
    """

    id: str
    status: Status
    items: tuple[int | str | None, ...]
    scores: tuple[float | None, ...]
    method: str
    as_of: int
    privacy: str
    v: int = VERSION


class Rejection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a record was set aside and why; its size, never its payload."""

    topic: str
    partition: int
    offset: int
    reason: Reason
    size: int
    v: int = VERSION

    @property
    def key(self) -> bytes:
        """The record key, the same after every rebuild."""
        return f"{self.topic}/{self.partition}/{self.offset}".encode()


class CatalogueEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the public may know of an item; a withdrawn one is never recommended."""

    item: IntItem | TextItem
    title: Annotated[str, msgspec.Meta(max_length=500)] = ""
    categories: tuple[Annotated[str, msgspec.Meta(max_length=100)], ...] = ()
    withdrawn: bool = False
    v: int = VERSION


_T = Any


def encode_message(message: msgspec.Struct) -> bytes:
    """Return a cut, query, recommendation, rejection or catalogue entry as JSON."""
    return _json_encoder.encode(message)


def decode_message(kind: type[_T], value: bytes | None) -> _T:
    """Return the message of `kind` in a record's value; raises `WireError` and nothing else."""
    if not value:
        raise WireError(Reason.EMPTY)
    if len(value) > MAX_EVENT_BYTES:
        raise WireError(Reason.TOO_LARGE)
    try:
        message = msgspec.json.decode(value, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise WireError(_version_reason(value)) from None
    if message.v != VERSION:
        raise WireError(Reason.UNKNOWN_VERSION)
    return message

"""From a run of records to columns, with vectorised checks: equal to `decode` on each of them."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_app.wire.decoding import LAST_GROUP, Intake, decode, masks_fit
from stream_app.wire.events import JsonInts, Packed
from stream_app.wire.ids import partitions_of
from stream_app.wire.limits import MAX_EVENT_BYTES, VERSION
from stream_app.wire.reasons import REASON_CODE, WireError

_json_run: msgspec.json.Decoder[list[Any]] = msgspec.json.Decoder(list[JsonInts | str])
_packed = msgspec.msgpack.Decoder(Packed)


@dataclass(frozen=True, eq=False)
class RecordRun:
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
    ratings per record; reasons (n,) uint8, an index into `REASONS` (0: accepted); items (m,)
    uint64, reports (m,) uint8 and masks (m,) uint16, 0 where the mechanism has none. A record that
    is set aside has count 0 and zero fields.
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
    masks: NDArray[np.uint16]

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
    NDArray[np.uint16],
]


def decode_many(run: RecordRun, intake: Intake) -> Batch:
    """Decode the records of a run into columns; equal to `decode` on each of them."""
    n = len(run.offsets)
    sizes = np.fromiter([len(value) if value else 0 for value in run.values], np.int64, n)
    columns = _decode_alike(run, sizes, intake) if n else None
    if columns is None:
        columns = _decode_each(run, intake)
    return Batch(run.partition, np.fromiter(run.offsets, np.int64, n), sizes, *columns)


def _decode_alike(run: RecordRun, sizes: NDArray[np.int64], intake: Intake) -> _Decoded | None:
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
            masks = _json_masks(columns[8], counts)
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
            masks = _packed_masks(columns[8], counts)
        reported = np.fromiter(map(len, columns[6]), np.int64, n)
        mechanisms = np.fromiter(map(intake.index.__getitem__, columns[3]), np.uint8, n)
    except (msgspec.MsgspecError, TypeError, ValueError, KeyError, RecursionError):
        return None
    if (
        set(columns[0]) != {VERSION}
        or (any(columns[7]) and not intake.accept_tests)
        or device_bytes.hex().encode() != key_bytes
        or not np.array_equal(counts, reported)
        or not _reports_fit(reports, masks, mechanisms, counts, intake)
    ):
        return None
    places = partitions_of(np.frombuffer(key_bytes, np.uint8).reshape(n, 32), intake.partitions)
    if (places != run.partition).any():
        return None
    devices = np.frombuffer(device_bytes, "<u8").astype(np.uint64).reshape(n, 2)
    seqs = np.fromiter(columns[2], np.int64, n)
    return devices, seqs, mechanisms, counts, np.zeros(n, np.uint8), items, reports, masks


def _json_columns(values: Sequence[bytes], n: int) -> tuple[Any, ...]:
    """Parse a run of JSON records in one call; ValueError unless each is exactly one event."""
    parsed = _json_run.decode(b"[" + _SEPARATOR_JSON.join(values) + b"]")
    if len(parsed) != 2 * n - 1 or parsed[1::2].count(_SEPARATOR) != n - 1:
        raise ValueError("a record is not exactly one event")
    return tuple(zip(*map(msgspec.structs.astuple, parsed[::2]), strict=True))


def _json_masks(columns: Sequence[Any], counts: NDArray[np.int64]) -> NDArray[np.uint16]:
    """Return the masks of a run, 0 where a record has none; ValueError where they are too few."""
    given = [() if masks is msgspec.UNSET else masks for masks in columns]
    return _laid(
        np.fromiter(chain.from_iterable(given), np.uint16),
        np.fromiter(map(len, given), np.int64, len(given)),
        np.array([masks is not msgspec.UNSET for masks in columns]),
        counts,
    )


def _packed_masks(columns: Sequence[Any], counts: NDArray[np.int64]) -> NDArray[np.uint16]:
    """Return the masks of a run, 0 where a record has none; ValueError where they are too few."""
    if all(masks is msgspec.UNSET for masks in columns):
        return np.zeros(int(counts.sum()), np.uint16)
    given = [b"" if masks is msgspec.UNSET else masks for masks in columns]
    sizes = np.fromiter(map(len, given), np.int64, len(given))
    if (sizes & 1).any():
        raise ValueError("masks of half a word")
    return _laid(
        np.frombuffer(b"".join(given), "<u2"),
        sizes >> 1,
        np.array([masks is not msgspec.UNSET for masks in columns]),
        counts,
    )


def _laid(
    masks: NDArray[np.uint16],
    sizes: NDArray[np.int64],
    given: NDArray[np.bool_],
    counts: NDArray[np.int64],
) -> NDArray[np.uint16]:
    if not np.array_equal(sizes[given], counts[given]) or not masks.all():
        raise ValueError("not one mask for each item")
    laid = np.zeros(int(counts.sum()), np.uint16)
    laid[np.repeat(given, counts)] = masks
    return laid


def _reports_fit(
    reports: NDArray[np.uint8],
    masks: NDArray[np.uint16],
    mechanisms: NDArray[np.uint8],
    counts: NDArray[np.int64],
    intake: Intake,
) -> bool:
    alphabets = np.array(list(intake.mechanisms.values()), np.int64)
    if int(reports.max()) >= alphabets[mechanisms].min() and not bool(
        (reports < np.repeat(alphabets[mechanisms], counts)).all()
    ):
        return False
    if not intake.masked and not masks.any():
        return True
    levels = np.array([intake.masked.get(name, 1) for name in intake.mechanisms], np.int64)
    of = np.repeat(levels[mechanisms], counts)
    wanted = of > 1
    if (masks[~wanted] != 0).any():
        return False
    return masks_fit(masks[wanted], of[wanted]) and bool(
        (reports[wanted] <= LAST_GROUP[masks[wanted]]).all()
    )


def _decode_each(run: RecordRun, intake: Intake) -> _Decoded:
    """Decode record by record: the same columns, with a reason for each that is set aside."""
    n = len(run.offsets)
    devices = np.zeros((n, 2), np.uint64)
    seqs = np.zeros(n, np.int64)
    mechanisms = np.zeros(n, np.uint8)
    counts = np.zeros(n, np.int64)
    reasons = np.zeros(n, np.uint8)
    items, reports = [np.empty(0, np.uint64)], [np.empty(0, np.uint8)]
    masks = [np.empty(0, np.uint16)]
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
        given = event.masks
        masks.append(np.zeros(len(event.items), np.uint16) if given is None else given)
    return (
        devices,
        seqs,
        mechanisms,
        counts,
        reasons,
        np.concatenate(items),
        np.concatenate(reports),
        np.concatenate(masks),
    )

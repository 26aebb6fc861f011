"""The records in a journal's frames, as columns: small to write, quick to read by the million.

    commit    epoch, the number of its first message, progress of a data set (or none), and
              debits, one a request: device, scope, adjacency, nano-epsilon, 10^-18 of delta,
              reports, its reported keys, how many messages; messages, in the order of the debits:
              topic, seq, and the very bytes that are sent
    acks      numbers of messages
    pending   messages with their numbers and devices: the tail of a compacted file
    accounts  every device with its seqs, reported keys and spends, the progress of data sets, the
              numbers
    enrolments  the terms of devices as they are from now on: each row replaces the earlier one

Columns are little-endian. Texts (topics, scopes, adjacencies) are written once in a list, and
columns hold their indices. A key column that several requests share (the whole public scope) is
written once.

Fields with a default were added later: a file of an earlier murmurec does not have them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from producers.journal.journal_progress import DatasetProgress
from stream_app.wire import DEVICE_BYTES


class Commit(msgspec.Struct, array_like=True, gc=False):
    """r debits and their m messages; see the module."""

    epoch: int
    first: int  # number of the first message
    replay: DatasetProgress | None
    texts: list[str]
    devices: bytes  # (r, 16)
    scopes: bytes  # (r,) u8: place in texts
    adjacencies: bytes  # (r,) u8
    topics: bytes  # (r,) u8
    nanos: bytes  # (r,) u64
    attos: bytes  # (r,) u64
    reports: bytes  # (r,) u32
    reported_keys: bytes  # (r,) u32: place among the distinct columns
    column_sizes: bytes  # (d,) u32
    column_keys: bytes  # (k,) u64
    messages: bytes  # (r,) u32: how many
    seqs: bytes  # (r,) u64: of the first message
    value_sizes: bytes  # (m,) u32
    values: bytes
    mechanisms: bytes = b""  # (r,) u8: place in texts; empty where it was not recorded
    again: bytes = b""  # (r,) u32: reports of keys that were reported before; empty if all are 0


class Acks(msgspec.Struct, array_like=True, gc=False):
    """Messages that the broker has accepted."""

    numbers: bytes  # u64


class Pending(msgspec.Struct, array_like=True, gc=False):
    """m messages that were not acknowledged when the file was compacted."""

    texts: list[str]
    numbers: bytes  # u64
    devices: bytes  # (m, 16)
    topics: bytes  # u8
    seqs: bytes  # u64
    value_sizes: bytes  # u32
    values: bytes


class RowIndex(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """To which device, and to which name, each of n rows of `Accounts` belongs."""

    places: bytes  # (n,) u32: index of the device
    names: bytes  # (n,) u8: index in texts


class Accounts(msgspec.Struct, array_like=True, gc=False):
    """The budget state of n devices; see `account_book`."""

    epoch: int
    next: int  # number of the next message
    replays: list[DatasetProgress]
    texts: list[str]
    devices: bytes  # (n, 16)
    seqs_of: RowIndex
    seqs: bytes  # u64: the last that was used
    reported_of: RowIndex
    reported_keys: bytes  # u32: place among the distinct columns
    column_sizes: bytes
    column_keys: bytes
    spends_of: RowIndex  # named by the adjacency
    spend_scopes: bytes  # u8: place in texts
    spend_epochs: bytes  # u32
    spend_nanos: bytes  # u64
    spend_attos: bytes  # u64
    spend_reports: bytes  # u64
    spend_mechanisms: bytes = b""  # u8: place in texts; empty where it was not recorded
    spend_again: bytes = b""  # u64; empty where it was not recorded: then 0


class Enrolments(msgspec.Struct, array_like=True, gc=False):
    """The accounts of n devices; `test`: the whole journal is a test; `scope`, `campaign_scope`:
    from now on the digests of the public scopes, empty where they do not change."""

    texts: list[str]
    devices: bytes  # (n, 16)
    epochs: bytes  # (n,) u32: of enrolment
    nanos: bytes  # (n,) u64: the budget's epsilon; 2^64 - 1 without a limit
    attos: bytes  # (n,) u64
    windows: bytes  # (n,) u32: 0 without one
    plans: bytes  # (n,) u8: place in texts
    simulated: bytes  # (n,) u8
    withdrawn: bytes  # (n,) u32: epoch, 0 where not withdrawn
    test: bool = False
    scope: bytes = b""
    campaign_scope: bytes = b""
    held: bytes = b""  # (n,) u64: of delta, by the plan before; empty if all are 0
    paces: bytes = b""  # (n,) u8: place in texts; empty in an earlier file: the default


_encoder = msgspec.msgpack.Encoder()
encode: Callable[[Commit | Acks | Pending | Accounts | Enrolments], bytes] = _encoder.encode
decode_commit = msgspec.msgpack.Decoder(Commit).decode
decode_acks = msgspec.msgpack.Decoder(Acks).decode
decode_pending = msgspec.msgpack.Decoder(Pending).decode
decode_accounts = msgspec.msgpack.Decoder(Accounts).decode
decode_enrolments = msgspec.msgpack.Decoder(Enrolments).decode


def column(numbers: Sequence[int], kind: str) -> bytes:
    """Return numbers as a column of a numpy type."""
    return np.array(numbers, kind).tobytes()


def numbers(data: bytes, kind: str) -> list[int]:
    """Return a column as Python integers."""
    found: list[int] = np.frombuffer(data, kind).tolist()
    return found


def devices_of(record: Commit | Pending | Accounts | Enrolments) -> list[bytes]:
    """Return the device of each row of a record."""
    data = record.devices
    return [data[i : i + DEVICE_BYTES] for i in range(0, len(data), DEVICE_BYTES)]


class Texts:
    """Texts that are written once in a list and named by their index, at most 256 of them."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def place(self, text: str) -> int:
        """Return the place of a text, a new one at the end."""
        place = self.known.setdefault(text, len(self.known))
        if place > 255:
            raise ValueError("journal: more than 256 different topics, scopes and mechanisms")
        return place

    @property
    def all(self) -> list[str]:
        """The texts in the order of their places."""
        return list(self.known)


class KeyColumns:
    """Sorted key columns of which each distinct object is written once."""

    def __init__(self) -> None:
        self._places: dict[int, int] = {}
        self._columns: list[NDArray[np.uint64]] = []  # kept, so that no id is used twice

    def place(self, keys: NDArray[np.uint64]) -> int:
        """Return the index of a key column."""
        place = self._places.setdefault(id(keys), len(self._columns))
        if place == len(self._columns):
            self._columns.append(keys)
        return place

    @property
    def sizes(self) -> bytes:
        """The length of each column."""
        return column([len(keys) for keys in self._columns], "<u4")

    @property
    def keys(self) -> bytes:
        """All columns, concatenated."""
        return b"".join(keys.astype("<u8", copy=False).tobytes() for keys in self._columns)


def key_columns_of(record: Commit | Accounts) -> list[NDArray[np.uint64]]:
    """Return the distinct key columns of a record."""
    keys = np.frombuffer(record.column_keys, "<u8").astype(np.uint64, copy=False)
    ends = np.cumsum(np.frombuffer(record.column_sizes, "<u4"), dtype=np.int64).tolist()
    found: list[NDArray[Any]] = []
    start = 0
    for end in ends:
        found.append(keys[start:end])
        start = end
    return found

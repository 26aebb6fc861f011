"""Changes of shards: what the others add to their state, a record each of the exchange topic.

    format:u8  seal (16 bytes)  MessagePack {shard, number, cut, ratings, factors, columns}

A change is a list of sums that its shard has not published before, so it is complete in itself and
changes add in any order. Columns are named, little-endian, without padding; one that is left out is
empty. Items are named by key: rows and slots differ between shards.

    keys (m,) u64, reports (m,) u32       items, rising, and how often each was counted
    learned (r,) u32, beliefs (r, 3 + factors) f16
                                          places in `keys`; changes of precisions and moments
    overall (1, 2) f64                    change of the precision and the moment of the mean rating
    frequency_*, moment_*                 cells (c,) u32 of the count-min and the AMS sketch, and
                                          counts (c,) i32, without what `reports` add to them;
                                          frequency_total (1,) i64
    F_keys (k,) u64, F_counts (k,) u32, F_moments (k, 3) i32, F_numbers (1, 3) i64
                                          of a feed of pairs, `rated` or `reported`
    F_head (h,) u64                       items of the rows and columns of its tables
    F_T_rows (n,) u16, F_T_sizes (n,) u16 rows of a table of pairs, and how many cells each has
    F_T_gaps (c,) u8, F_T_values (c,) u16, F_T_large (x,) u32
                                          columns that a row passes over before each cell; the cell,
                                          where it is 65535 the next of `large`

A cell of value 0 is allowed, and stands in a gap that is wider than 255. Every length, place and
number is checked here: a change that was decoded can be merged without a look at bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_app.wire.authenticity.seal import OPEN, SEAL_BYTES, Seal
from stream_app.wire.limits import MAX_SEQ, MAX_SHARDS
from stream_app.wire.reasons import Reason, WireError

CHANGE_FORMAT = 1
MAX_CHANGE_BYTES = 4 << 20
FREQUENCY_SHAPE, MOMENT_SHAPE = (4, 1 << 16), (5, 256)  # of the sketches of a state
FITS = (2, 690)  # of the weights of both lists
FEEDS, TABLES = ("rated", "reported"), ("pairs", "between", "within")
MOST_HEAD, LARGE = 4096, (1 << 16) - 1
MOST_NUMBER = 2.0**36  # of sums over a stream: far from an overflow
_MOST_FACTORS = 256
_SEALED_AS = b"change"
_EXPONENT = np.uint16(0x7C00)  # of a float16

# Column -> type, numbers in a row, and the column with as many rows; 0: as many as the factors ask.
_OF_ITEMS = {
    "keys": ("<u8", 1, "keys"),
    "reports": ("<u4", 1, "keys"),
    "learned": ("<u4", 1, "learned"),
    "beliefs": ("<f2", 0, "learned"),
    "overall": ("<f8", 2, ""),
    "fits": ("<f4", FITS[0] * FITS[1], ""),
    "frequency_cells": ("<u4", 1, "frequency_cells"),
    "frequency_counts": ("<i4", 1, "frequency_cells"),
    "frequency_total": ("<i8", 1, ""),
    "moment_cells": ("<u4", 1, "moment_cells"),
    "moment_counts": ("<i4", 1, "moment_cells"),
}
_OF_A_FEED = {
    "keys": ("<u8", 1, "keys"),
    "counts": ("<u4", 1, "keys"),
    "moments": ("<i4", 3, "keys"),
    "numbers": ("<i8", 3, ""),
    "head": ("<u8", 1, "head"),
}
_OF_A_TABLE = {
    "rows": ("<u2", 1, "rows"),
    "sizes": ("<u2", 1, "rows"),
    "gaps": ("u1", 1, "gaps"),
    "values": ("<u2", 1, "gaps"),
    "large": ("<u4", 1, "large"),
}
COLUMNS: dict[str, tuple[str, int, str]] = dict(_OF_ITEMS)
for _name, _parts in (
    *((feed, _OF_A_FEED) for feed in FEEDS),
    *((f"{feed}_{table}", _OF_A_TABLE) for feed in FEEDS for table in TABLES),
):
    COLUMNS |= {
        f"{_name}_{part}": (kind, width, like and f"{_name}_{like}")
        for part, (kind, width, like) in _parts.items()
    }

_Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_SEQ)]


class _Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    shard: Annotated[int, msgspec.Meta(ge=0, lt=MAX_SHARDS)]
    number: Annotated[int, msgspec.Meta(ge=1, le=MAX_SEQ)]
    cut: _Count
    ratings: _Count
    factors: Annotated[int, msgspec.Meta(ge=1, le=_MOST_FACTORS)]
    columns: dict[str, bytes]


_decoder = msgspec.msgpack.Decoder(_Body)


@dataclass(frozen=True, eq=False)
class Change:
    """What a shard had counted and learned at `cut` and not published before: the change `number`
    of it, of so many ratings; `columns` has every name of `COLUMNS`, absent ones empty."""

    shard: int
    number: int
    cut: int
    ratings: int
    factors: int
    columns: Mapping[str, NDArray[Any]] = field(repr=False)

    def __post_init__(self) -> None:
        empty = {name: self._column(name, b"") for name in COLUMNS.keys() - self.columns.keys()}
        if empty:
            object.__setattr__(self, "columns", {**self.columns, **empty})

    def _column(self, name: str, data: bytes) -> NDArray[Any]:
        kind, width, _ = COLUMNS[name]
        flat = np.frombuffer(data, kind)
        width = width or 3 + self.factors
        return flat if width == 1 else flat.reshape(-1, width)


def encode_change(change: Change, seal: Seal = OPEN) -> bytes:
    """Return the value of a change's record; ValueError beyond `MAX_CHANGE_BYTES`."""
    columns = {
        name: np.ascontiguousarray(column, COLUMNS[name][0]).tobytes()
        for name, column in sorted(change.columns.items())
        if len(column)
    }
    fields = change.shard, change.number, change.cut, change.ratings, change.factors
    body = msgspec.msgpack.encode(_Body(*fields, columns))
    value = bytes([CHANGE_FORMAT]) + seal.tag(_SEALED_AS, body) + body
    if len(value) > MAX_CHANGE_BYTES:
        raise ValueError(f"change of {len(value)} bytes: at most {MAX_CHANGE_BYTES} are published")
    return value


def decode_change(value: bytes | None, seal: Seal = OPEN) -> Change:
    """Return the change in a record's value, whole and within all bounds; raises `WireError`, of
    which `ForeignSeal` where it is not sealed with the secret of `seal`, and no other error."""
    if not value:
        raise WireError(Reason.EMPTY)
    if len(value) > MAX_CHANGE_BYTES:
        raise WireError(Reason.TOO_LARGE)
    if value[0] != CHANGE_FORMAT:
        raise WireError(Reason.UNKNOWN_VERSION)
    tag, body = value[1 : 1 + SEAL_BYTES], memoryview(value)[1 + SEAL_BYTES :]
    seal.check(_SEALED_AS, body, tag)
    try:
        found = _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise WireError(Reason.MALFORMED) from None
    change = Change(found.shard, found.number, found.cut, found.ratings, found.factors, {})
    try:
        columns = {name: change._column(name, data) for name, data in found.columns.items()}
    except (KeyError, ValueError):
        raise WireError(Reason.MALFORMED) from None
    change = Change(found.shard, found.number, found.cut, found.ratings, found.factors, columns)
    if not _is_whole(change.columns):
        raise WireError(Reason.MALFORMED)
    return change


def _is_whole(columns: Mapping[str, NDArray[Any]]) -> bool:
    """Return whether lengths agree, and places and numbers are within bounds."""
    for name, (_, _, like) in COLUMNS.items():
        if len(columns[name]) != len(columns[like]) if like else len(columns[name]) > 1:
            return False
    beliefs = columns["beliefs"]
    distinct = ["keys", "learned", "frequency_cells", "moment_cells"]
    distinct += [f"{feed}_keys" for feed in FEEDS]
    distinct += [f"{feed}_{table}_rows" for feed in FEEDS for table in TABLES]
    numbers = (columns[name] for name in ("frequency_total", *(f"{f}_numbers" for f in FEEDS)))
    return (
        all(_rise(columns[name]) for name in distinct)
        and all(bool((np.abs(each.astype(np.float64)) <= MOST_NUMBER).all()) for each in numbers)
        and _below(columns["learned"], len(columns["keys"]))
        and _below(columns["frequency_cells"], FREQUENCY_SHAPE[0] * FREQUENCY_SHAPE[1])
        and _below(columns["moment_cells"], MOMENT_SHAPE[0] * MOMENT_SHAPE[1])
        and bool(((beliefs.view("<u2") & _EXPONENT) != _EXPONENT).all())  # finite
        and all(bool((np.abs(columns[name]) <= MOST_NUMBER).all()) for name in ("overall", "fits"))
        and all(_are_tables(columns, feed) for feed in FEEDS)
    )


def _rise(column: NDArray[Any]) -> bool:
    return bool((column[1:] > column[:-1]).all())


def _below(places: NDArray[Any], stop: int) -> bool:
    return not len(places) or int(places.max()) < stop


def _are_tables(columns: Mapping[str, NDArray[Any]], feed: str) -> bool:
    """Return whether the cells of a feed's tables lie in its head."""
    head = len(columns[f"{feed}_head"])
    if head > MOST_HEAD or not _rise(np.sort(columns[f"{feed}_head"])):
        return False
    for table in TABLES:
        rows, sizes, gaps, values, large = (
            columns[f"{feed}_{table}_{part}"] for part in _OF_A_TABLE
        )
        if not _below(rows, head) or int(sizes.sum(dtype=np.int64)) != len(gaps):
            return False
        if int(np.count_nonzero(values == LARGE)) != len(large) or not sizes.all():
            return False
        if len(rows):
            starts = np.cumsum(sizes, dtype=np.int64) - sizes
            stops = np.add.reduceat(gaps, starts, dtype=np.int64) + sizes  # after the last cell
            if int(stops.max()) > head:
                return False
    return True

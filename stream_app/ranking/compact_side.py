"""The item side as bytes of at most `MOST_BYTES`, as devices fetch it.

    head      magic:4 format:u8 version:u64 n:u32 k:u32 l:u32 b:u32 r:u32 c:u32 d:u32
    items     keys u64, popularity, lately, liking, ratings f32              each (n,)
    links     scales f32 (n,), targets 12 bits (n, k), codes i8 (n, k)
    within    the same, (n, l);  between  (n, b)
    factors   scales f32 (n,), codes i8 (n, r)
    weights   next f32 (c,), now f32 (d,): 18 learned ones, or none          little-endian

A weight is `scale * code / 127`, with the largest magnitude of its row as the scale: its error is
below 0.4 % of the strongest link of the row. A slot fits 12 bits because a head has at most 4,096
items. Links and what follows are sorted by strength; the weakest are left out, in equal proportion,
where the whole would exceed the limit. What is read is a whole item side or an error.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_app.ranking.item_side import ItemSide
from stream_app.ranking.scores import DEFAULT

MOST_BYTES = 2_000_000
MOST_ITEMS = 4096
_MAGIC, _FORMAT = b"mwis", 2
_HEAD = struct.Struct("<4sBQ7I")
_MOST_CODE = 127
_VECTORS = ("popularity", "lately", "liking", "ratings")
_TABLES = ("link", "within", "between")


class CompactSideError(ValueError):
    """Bytes that hold no item side which this version can read."""


def encode_side(side: ItemSide, most_bytes: int = MOST_BYTES) -> bytes:
    """Return an item side as bytes; the weakest links are left out beyond `most_bytes`.

    Raises ValueError for no items, more than `MOST_ITEMS`, or numbers that are not finite.
    """
    n, r = len(side), side.factors.shape[1]
    if not 1 <= n <= MOST_ITEMS:
        raise ValueError(f"item side of {n} items: 1 to {MOST_ITEMS} can be published")
    tables = {name: _table(side, name) for name in _TABLES}
    weights = [_finite("weights", each) for each in (side.next_weights, side.now_weights)]
    learned = [len(each) for each in weights]
    widths = _kept(n, [targets.shape[1] for targets, _ in tables.values()], r, learned, most_bytes)
    parts = [
        _HEAD.pack(_MAGIC, _FORMAT, side.version, n, *widths, r, *learned),
        side.keys.astype("<u8").tobytes(),
        *(_finite(name, getattr(side, name)).tobytes() for name in _VECTORS),
        *(
            part
            for (name, table), width in zip(tables.items(), widths, strict=True)
            for part in _encoded_links(f"{name} weights", *table, width)
        ),
        *_encoded_rows("factors", side.factors),
        *(each.tobytes() for each in weights),
    ]
    return b"".join(parts)


def decode_side(data: bytes) -> ItemSide:
    """Return the item side of these bytes; raises `CompactSideError` and nothing else."""
    if len(data) < _HEAD.size:
        raise CompactSideError(f"{len(data)} bytes are no item side")
    magic, form, version, n, *widths, r, first, second = _HEAD.unpack_from(data)
    if magic != _MAGIC:
        raise CompactSideError("the bytes are no item side")
    if form != _FORMAT:
        raise CompactSideError(f"format {form}: this version reads format {_FORMAT}")
    if not 1 <= n <= MOST_ITEMS or max(*widths, r) > MOST_ITEMS:
        raise CompactSideError(f"{n} items, {widths} links, {r} factors: at most 4,096")
    if not {first, second} <= {0, len(DEFAULT)}:
        raise CompactSideError(f"{first} and {second} weights: none, or {len(DEFAULT)}")
    if len(data) != (wanted := _size(n, widths, r, [first, second])):
        raise CompactSideError(f"{len(data)} bytes in place of {wanted}")
    reader = _Reader(data, _HEAD.size)
    keys = reader.vector("<u8", n).astype(np.uint64)
    vectors = {name: reader.floats(n) for name in _VECTORS}
    if not (vectors["popularity"] > 0).all():
        raise CompactSideError("a popularity is not above 0")
    links = [reader.links(n, width) for width in widths]
    side = ItemSide(
        version=version,
        keys=keys,
        **vectors,
        link_targets=links[0][0],
        link_weights=links[0][1],
        within_targets=links[1][0],
        within_weights=links[1][1],
        between_targets=links[2][0],
        between_weights=links[2][1],
        factors=reader.rows(n, r),
        next_weights=reader.floats(first),
        now_weights=reader.floats(second),
    )
    if len(np.unique(keys)) != n:
        raise CompactSideError("an item occurs twice")
    return side


def _table(side: ItemSide, name: str) -> tuple[NDArray[np.uint16], NDArray[np.float32]]:
    return getattr(side, f"{name}_targets"), getattr(side, f"{name}_weights")


def _size(n: int, widths: Sequence[int], r: int, learned: Sequence[int]) -> int:
    links = sum(_packed_bytes(n * width) + n * width for width in widths)
    numbers = len(_VECTORS) + len(_TABLES) + 1
    return _HEAD.size + n * (8 + 4 * numbers) + links + n * r + 4 * sum(learned)


def _kept(
    n: int, widths: Sequence[int], r: int, learned: Sequence[int], most_bytes: int
) -> list[int]:
    """Return how long the rows of each table may be, in the given proportion."""
    alone = _size(n, [0] * len(widths), r, learned)
    room, needed = max(most_bytes - alone, 0), _size(n, widths, r, learned) - alone
    return [width if needed <= room else int(width * room / needed) for width in widths]


def _finite(name: str, numbers: NDArray[np.float32]) -> NDArray[np.float32]:
    if not np.isfinite(numbers).all():
        raise ValueError(f"item side: {name} are not all finite")
    return numbers.astype("<f4")


def _encoded_links(
    name: str, targets: NDArray[np.uint16], weights: NDArray[np.float32], width: int
) -> list[bytes]:
    """Return scales, packed targets and codes of the `width` strongest links of every row."""
    if targets.size and int(targets.max()) >= len(targets):
        raise ValueError(f"item side: {name} lead to slot {int(targets.max())} of {len(targets)}")
    strongest = np.argsort(-np.abs(weights), axis=1, kind="stable")[:, :width]
    scales, codes = _encoded_rows(name, np.take_along_axis(weights, strongest, 1))
    kept = np.take_along_axis(targets, strongest, 1)
    return [scales, _packed(kept.ravel()), codes]


def _encoded_rows(name: str, rows: NDArray[np.float32]) -> list[bytes]:
    """Return the scale of every row and its codes."""
    rows = _finite(name, rows)
    scales = np.abs(rows).max(axis=1, initial=0).astype("<f4")
    whole = np.where(scales > 0, scales, np.float32(1))[:, None]
    codes = np.rint(rows / whole * np.float32(_MOST_CODE)).astype(np.int8)
    return [scales.tobytes(), codes.tobytes()]


def _packed_bytes(count: int) -> int:
    return 3 * ((count + 1) // 2)


def _packed(slots: NDArray[np.uint16]) -> bytes:
    """Return two slots in three bytes: low 8 of a; high 4 of a with low 4 of b; high 8 of b."""
    even = np.append(slots, np.uint16(0)) if len(slots) % 2 else slots
    a, b = even[0::2], even[1::2]
    triples = np.stack([a & 0xFF, (a >> 8) | ((b & 0xF) << 4), b >> 4], axis=1)
    return triples.astype(np.uint8).tobytes()


@dataclass
class _Reader:
    """Reads arrays one after the other; the sizes were checked."""

    data: bytes
    place: int

    def vector(self, kind: str, count: int) -> NDArray[np.generic]:
        found = np.frombuffer(self.data, kind, count, self.place)
        self.place += found.nbytes
        return found

    def floats(self, count: int) -> NDArray[np.float32]:
        found = self.vector("<f4", count).astype(np.float32)
        if not np.isfinite(found).all():
            raise CompactSideError("a number is not finite")
        return found

    def links(self, n: int, width: int) -> tuple[NDArray[np.uint16], NDArray[np.float32]]:
        scales = self.floats(n)
        triples = self.vector("u1", _packed_bytes(n * width)).astype(np.uint16).reshape(-1, 3)
        low, middle, high = triples.T
        pairs = np.stack([low | ((middle & 0xF) << 8), (middle >> 4) | (high << 4)], axis=1)
        targets = pairs.ravel()[: n * width].reshape(n, width)
        if targets.size and int(targets.max()) >= n:
            raise CompactSideError(f"a link leads to slot {int(targets.max())} of {n}")
        return targets, self._weights(scales, n, width)

    def rows(self, n: int, width: int) -> NDArray[np.float32]:
        return self._weights(self.floats(n), n, width)

    def _weights(self, scales: NDArray[np.float32], n: int, width: int) -> NDArray[np.float32]:
        codes = self.vector("i1", n * width).reshape(n, width).astype(np.float32)
        weights: NDArray[np.float32] = codes * (scales / np.float32(_MOST_CODE))[:, None]
        return weights

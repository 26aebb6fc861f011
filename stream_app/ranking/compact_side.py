"""The item side as bytes of at most `MOST_BYTES`, as devices fetch it.

    head      magic:4 format:u8 version:u64 n:u32 k:u32 l:u32 r:u32          little-endian
    items     keys u64, popularity f32, ratings f32, rates f32, noise f32    each (n,)
    links     scales f32 (n,), targets 12 bits (n, k), codes i8 (n, k)
    next      scales f32 (n,), targets 12 bits (n, l), codes i8 (n, l)
    factors   scales f32 (n,), codes i8 (n, r)

A weight is `scale * code / 127`, with the largest magnitude of its row as the scale: its error is
below 0.4 % of the strongest link of the row. A slot fits 12 bits because a head has at most 4,096
items. Links and what follows are sorted by strength; the weakest of both are left out, in equal
proportion, where the whole would exceed the limit. What is read is a whole item side or an error.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_app.ranking.item_side import ItemSide

MOST_BYTES = 2_000_000
MOST_ITEMS = 4096
_MAGIC, _FORMAT = b"mwis", 1
_HEAD = struct.Struct("<4sBQIIII")
_MOST_CODE = 127
_VECTORS = ("popularity", "ratings", "rates", "noise")


class CompactSideError(ValueError):
    """Bytes that hold no item side which this version can read."""


def encode_side(side: ItemSide, most_bytes: int = MOST_BYTES) -> bytes:
    """Return an item side as bytes; the weakest links are left out beyond `most_bytes`.

    Raises ValueError for no items, more than `MOST_ITEMS`, or numbers that are not finite.
    """
    n, r = len(side), side.factors.shape[1]
    if not 1 <= n <= MOST_ITEMS:
        raise ValueError(f"item side of {n} items: 1 to {MOST_ITEMS} can be published")
    k, after = _kept(n, side.link_targets.shape[1], side.next_targets.shape[1], r, most_bytes)
    parts = [
        _HEAD.pack(_MAGIC, _FORMAT, side.version, n, k, after, r),
        side.keys.astype("<u8").tobytes(),
        *(_finite(name, getattr(side, name)).tobytes() for name in _VECTORS),
        *_encoded_links("links", side.link_targets, side.link_weights, k),
        *_encoded_links("pairs", side.next_targets, side.next_weights, after),
        *_encoded_rows("factors", side.factors),
    ]
    return b"".join(parts)


def decode_side(data: bytes) -> ItemSide:
    """Return the item side of these bytes; raises `CompactSideError` and nothing else."""
    if len(data) < _HEAD.size:
        raise CompactSideError(f"{len(data)} bytes are no item side")
    magic, form, version, n, k, after, r = _HEAD.unpack_from(data)
    if magic != _MAGIC:
        raise CompactSideError("the bytes are no item side")
    if form != _FORMAT:
        raise CompactSideError(f"format {form}: this version reads format {_FORMAT}")
    if not 1 <= n <= MOST_ITEMS or max(k, after, r) > MOST_ITEMS:
        raise CompactSideError(f"{n} items, {k} and {after} links, {r} factors: at most 4,096")
    if len(data) != _size(n, k, after, r):
        raise CompactSideError(f"{len(data)} bytes in place of {_size(n, k, after, r)}")
    reader = _Reader(data, _HEAD.size)
    keys = reader.vector("<u8", n).astype(np.uint64)
    vectors = {name: reader.floats(n) for name in _VECTORS}
    link_targets, link_weights = reader.links(n, k)
    next_targets, next_weights = reader.links(n, after)
    side = ItemSide(
        version=version,
        keys=keys,
        link_targets=link_targets,
        link_weights=link_weights,
        next_targets=next_targets,
        next_weights=next_weights,
        factors=reader.rows(n, r),
        **vectors,
    )
    if len(np.unique(keys)) != n:
        raise CompactSideError("an item occurs twice")
    return side


def _size(n: int, k: int, after: int, r: int) -> int:
    links = sum(_packed_bytes(n * width) + n * width for width in (k, after))
    return _HEAD.size + n * (8 + 4 * len(_VECTORS) + 3 * 4) + links + n * r


def _kept(n: int, k: int, after: int, r: int, most_bytes: int) -> tuple[int, int]:
    """Return how many links and how many followers of an item fit, in the given proportion."""
    room = max(most_bytes - _size(n, 0, 0, r), 0)
    needed = _size(n, k, after, r) - _size(n, 0, 0, r)
    if needed <= room:
        return k, after
    share = room / needed
    return int(k * share), int(after * share)


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

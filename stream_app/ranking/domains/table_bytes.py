"""The public table of similarities as bytes of at most `MOST_BYTES`, as devices fetch it.

    head      magic:4 format:u8 version:u64 release:u32 n:u32 domains:u8 k:u16
              epsilon:f64 delta:f64 spent:f64                                     little-endian
    names     of each domain  length:u8, UTF-8
    items     keys u64, domain u8, means f32, rates f32                           each (n,)
    links     targets u16, similarities u8, deviations i8                         each (D, n, k)

A similarity is code / 255, a deviation code / 31 stars. The weakest links are left out where the
whole would exceed the limit; the number of those kept depends on the numbers of items and domains
alone. What is read is a whole table or an error.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_app.ranking.domains.similarity_table import MOST_DOMAINS, MOST_ITEMS, SimilarityTable

MOST_BYTES = 2_000_000
FORMAT = 1
_MAGIC = b"mwst"
_HEAD = struct.Struct("<4sBQIIBHddd")
_NAME_BYTES = 255
_ITEM_BYTES, _LINK_BYTES = 8 + 1 + 4 + 4, 2 + 1 + 1
_NONE = 0xFFFF  # the target of no link
_SIMILARITY, _DEVIATION = np.float32(255), np.float32(31)


class SimilarityTableError(ValueError):
    """Bytes that hold no table of similarities which this version can read."""


def most_links(items: int, domains: int, most_bytes: int = MOST_BYTES) -> int:
    """Return how many links of an item into a domain fit, whatever the domains are called."""
    fixed = _HEAD.size + domains * (1 + _NAME_BYTES) + items * _ITEM_BYTES
    return max(0, (most_bytes - fixed) // (items * domains * _LINK_BYTES))


def encode_table(table: SimilarityTable) -> bytes:
    """Return a table as bytes; the weakest links are left out where they do not fit."""
    n, domains = len(table), len(table.domains)
    k = min(table.targets.shape[2], most_links(n, domains))
    names = [name.encode() for name in table.domains]
    terms = (table.epsilon, table.delta, table.spent)
    targets = table.targets[:, :, :k]
    similar = np.rint(table.similarities[:, :, :k] * _SIMILARITY).astype(np.uint8)
    apart = np.rint(table.deviations[:, :, :k] * _DEVIATION).astype(np.int8)
    return b"".join(
        (
            _HEAD.pack(_MAGIC, FORMAT, table.version, table.release, n, domains, k, *terms),
            *(bytes((len(name),)) + name for name in names),
            table.keys.astype("<u8").tobytes(),
            table.domain.tobytes(),
            table.means.astype("<f4").tobytes(),
            table.rates.astype("<f4").tobytes(),
            np.where(targets < 0, _NONE, targets).astype("<u2").tobytes(),
            similar.tobytes(),
            apart.tobytes(),
        )
    )


def decode_table(data: bytes) -> SimilarityTable:
    """Return the table of these bytes; raises `SimilarityTableError` and nothing else."""
    if len(data) < _HEAD.size or data[:4] != _MAGIC:
        raise SimilarityTableError("the bytes are no table of similarities")
    if data[4] != FORMAT:
        raise SimilarityTableError(f"format {data[4]}: this version reads format {FORMAT}")
    if len(data) > MOST_BYTES:
        raise SimilarityTableError(f"{len(data)} bytes: a table has at most {MOST_BYTES}")
    _, _, version, release, n, domains, k, *terms = _HEAD.unpack_from(data)
    if not (1 <= n <= MOST_ITEMS and 1 <= domains <= MOST_DOMAINS and k <= MOST_ITEMS):
        raise SimilarityTableError(
            f"{n} items, {domains} domains, {k} links: at most {MOST_ITEMS}, {MOST_DOMAINS} and "
            f"{MOST_ITEMS}"
        )
    try:
        reader = _Reader(data, _HEAD.size)
        names = tuple(reader.name() for _ in range(domains))
        left = n * _ITEM_BYTES + domains * n * k * _LINK_BYTES
        if len(data) - reader.place != left:
            raise ValueError(f"{len(data) - reader.place} bytes of items in place of {left}")
        return _table((version, release, *terms), names, reader, (domains, n, k))
    except SimilarityTableError:
        raise
    except ValueError as error:
        raise SimilarityTableError(f"no table of similarities: {error}") from None


def _table(
    stated: tuple[Any, ...], names: tuple[str, ...], reader: _Reader, shape: tuple[int, int, int]
) -> SimilarityTable:
    n = shape[1]
    keys = reader.vector("<u8", n).astype(np.uint64)
    domain = reader.vector("u1", n).astype(np.uint8)
    means, rates = (reader.vector("<f4", n).astype(np.float32) for _ in range(2))
    count = shape[0] * n * shape[2]
    raw = reader.vector("<u2", count).astype(np.int32).reshape(shape)
    similar = reader.vector("u1", count).astype(np.float32).reshape(shape) / _SIMILARITY
    apart = reader.vector("i1", count).astype(np.float32).reshape(shape) / _DEVIATION
    targets = np.where(raw == _NONE, np.int32(-1), raw).astype(np.int32)
    version, release, epsilon, delta, spent = stated
    return SimilarityTable(
        version,
        release,
        epsilon,
        delta,
        spent,
        keys,
        names,
        domain,
        means=means,
        rates=rates,
        targets=targets,
        similarities=similar,
        deviations=apart,
    )


@dataclass
class _Reader:
    """Reads one thing after the other; ValueError where the bytes end."""

    data: bytes
    place: int

    def name(self) -> str:
        if self.place >= len(self.data):
            raise ValueError("the bytes end in the names of domains")
        end = self.place + 1 + self.data[self.place]
        name = self.data[self.place + 1 : end]
        if len(name) != self.data[self.place]:
            raise ValueError("the bytes end in the names of domains")
        self.place = end
        return name.decode()  # UnicodeDecodeError is a ValueError

    def vector(self, kind: str, count: int) -> NDArray[Any]:
        found = np.frombuffer(self.data, kind, count, self.place)
        self.place += found.nbytes
        return found

"""Genres and years of the items of a campaign, packed: in its plan, so that all use the same.

    genres   names, rising
    flags    of each item of the scope ceil(g / 8) bytes; bit k of them, least first: has genre k
    years    of each item a uint16, little-endian; 0: unknown

The catalogue may change while a campaign runs; what stands in its plan does not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_app.wire.limits import MAX_GENRE, MAX_GENRES, MAX_PLAN_GENRES, MAX_SCOPE, MAX_YEAR

NAME_FORM = f"1 to {MAX_GENRE} printable characters without blanks around them"


def genres_among(words: Iterable[str]) -> tuple[str, ...]:
    """Return the words that are genres, each once, in their order and no more than an item has."""
    return tuple(dict.fromkeys(filter(is_name, words)))[:MAX_GENRES]


def is_name(word: str) -> bool:
    """Return whether a word can name a genre."""
    return 1 <= len(word) <= MAX_GENRE and word.isprintable() and word == word.strip()


class Features(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is public of the items of a scope, in its order."""

    genres: Annotated[tuple[str, ...], msgspec.Meta(max_length=MAX_PLAN_GENRES)]
    flags: Annotated[bytes, msgspec.Meta(max_length=MAX_SCOPE * (MAX_PLAN_GENRES // 8))]
    years: Annotated[bytes, msgspec.Meta(min_length=2, max_length=2 * MAX_SCOPE)]

    def __post_init__(self) -> None:
        if not all(map(is_name, self.genres)) or list(self.genres) != sorted(set(self.genres)):
            raise ValueError(f"genres of features: rising, each once, {NAME_FORM}")
        if len(self.years) % 2 or len(self.flags) != self.items * self._width:
            raise ValueError(
                f"features of {len(self.genres)} genres: {len(self.flags)} bytes of flags and "
                f"{len(self.years)} of years; an item has {self._width} and 2"
            )
        if int(self.year.max()) > MAX_YEAR:
            raise ValueError(f"features: a year is at most {MAX_YEAR}")
        if pack_flags(self.has_genre) != self.flags:
            raise ValueError("features: a flag is set beyond the last genre")

    @property
    def items(self) -> int:
        """How many items there are."""
        return len(self.years) // 2

    @property
    def _width(self) -> int:
        return -(-len(self.genres) // 8)

    @property
    def has_genre(self) -> NDArray[np.uint8]:
        """1 where an item has a genre (items, genres)."""
        packed = np.frombuffer(self.flags, np.uint8).reshape(self.items, self._width)
        return np.unpackbits(packed, axis=1, count=len(self.genres), bitorder="little")

    @property
    def year(self) -> NDArray[np.int64]:
        """The year of each item, 0 where it is unknown (items,)."""
        return np.frombuffer(self.years, "<u2").astype(np.int64)


def features_of(described: Sequence[tuple[Sequence[str], int | None]]) -> Features:
    """Return the features of items with these genres and years, in their order.

    Of more than `MAX_PLAN_GENRES` genres those of most items are kept, the first by name of those
    with as many.
    """
    counts = Counter(genre for genres, _ in described for genre in set(genres))
    kept = sorted(counts, key=lambda genre: (-counts[genre], genre))[:MAX_PLAN_GENRES]
    names = tuple(sorted(kept))
    place = {genre: number for number, genre in enumerate(names)}
    flags = np.zeros((len(described), len(names)), np.uint8)
    for number, (genres, _) in enumerate(described):
        flags[number, [place[genre] for genre in genres if genre in place]] = 1
    years = np.array([year or 0 for _, year in described], "<u2")
    return Features(names, pack_flags(flags), years.tobytes())


def pack_flags(flags: NDArray[np.uint8]) -> bytes:
    """Return flags (items, genres) as bytes."""
    return np.packbits(flags, axis=1, bitorder="little").tobytes()

"""The data sets of the papers: looked up in a folder by their usual names, or generated.

A data set is a file of ratings, or several, each as `producers.datasets.load` reads it. Without a
folder ratings are generated, so that every figure can be seen at once; the result then says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from producers.datasets.load import Dataset, load
from producers.datasets.synthetic import generate
from producers.scale import Scale
from research.xmap.two_domains import DomainRatings, of_two_files
from stream_app.errors import UserError

# Name -> the places where its ratings may be, under the folder of data.
PLACES: Mapping[str, tuple[str, ...]] = {
    "ml-100k": ("ml-100k/u.data", "ml-100k/ml-100k.npz", "ml-100k.zip", "ml-100k.npz"),
    "ml-1m": ("ml-1m/ratings.dat", "ml-1m/ml-1m.npz", "ml-1m.zip", "ml-1m.npz"),
}
_BOOKS, _MOVIES = (f"amazon-books-movies/{name}.npz" for name in ("books", "movies"))
_DESCRIPTORS = "sift/sift.npz"
_STARS = Scale(1.0, 5.0, 1.0)
_SIZES = {"users": 600, "items": 400, "ratings": 40_000}
_QUICK_SIZES = {"users": 200, "items": 150, "ratings": 8_000}


@dataclass
class Sources:
    """Data sets by name. `used`: those that were read since it was cleared, in words."""

    folder: Path | None
    seed: int = 0
    quick: bool = False
    used: list[str] = field(default_factory=list)
    generated: bool = False

    def __post_init__(self) -> None:
        if self.folder is not None and not self.folder.is_dir():
            raise UserError(f"--data {self.folder}: there is no such folder; give one, or none")

    def ratings(self, name: str) -> Dataset:
        """Return the ratings of a data set, on 1 .. 5 stars; UserError where they are missing."""
        if self.folder is None:
            return self._generated()
        for place in PLACES[name]:
            if (self.folder / place).is_file():
                found = load(self.folder / place, _STARS)
                self.used.append(f"{name}, {len(found):,} ratings")
                return found
        raise UserError(
            f"--data {self.folder}: holds no {name}; looked for {', '.join(PLACES[name])}"
        )

    def two_domains(self) -> DomainRatings:
        """Return movies and books with common users; UserError where they are missing.

        Generated: of the items of one world every second one is of the target domain.
        """
        if self.folder is None:
            found = self._generated()
            target = found.items.astype(np.int64) % 2 == 0
            return DomainRatings(found.users, found.items, found.ratings, target, 0)
        places = self.folder / _MOVIES, self.folder / _BOOKS
        if not all(place.is_file() for place in places):
            raise UserError(
                f"--data {self.folder}: holds no amazon-books-movies; looked for {_MOVIES} and "
                f"{_BOOKS}"
            )
        ratings = of_two_files(*places)
        self.used.append(f"amazon-books-movies, {len(ratings.stars):,} ratings")
        return ratings

    def descriptors(self) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
        """Return base and queries of real vectors, (n, 128) each, None without a folder of them."""
        if self.folder is None or not (self.folder / _DESCRIPTORS).is_file():
            return None
        try:
            with np.load(self.folder / _DESCRIPTORS, allow_pickle=False) as found:
                base, queries = (np.asarray(found[name], np.float32) for name in ("base", "query"))
        except (OSError, ValueError, KeyError) as error:
            raise UserError(
                f"{self.folder / _DESCRIPTORS}: holds no arrays 'base' and 'query' ({error}); give "
                "an npz file with both, (n, 128) each"
            ) from None
        if not all(
            each.ndim == 2 and each.shape[1] == 128 and len(each) for each in (base, queries)
        ):
            raise UserError(
                f"{self.folder / _DESCRIPTORS}: base {base.shape}, query {queries.shape}; give "
                "(n, 128) each"
            )
        self.used.append(f"sift, {len(base):,} descriptors")
        return base, queries

    def _generated(self) -> Dataset:
        self.generated = True
        found = generate(self.seed, **(_QUICK_SIZES if self.quick else _SIZES)).dataset
        self.used.append(f"generated, {len(found):,} ratings")
        return found

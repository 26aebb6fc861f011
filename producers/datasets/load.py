"""Data sets of ratings as columns, loaded from files.

A `Dataset` has one row per rating. `load` reads MovieLens archives and tables (see
`producers.datasets.formats`), finds the scale, and rejects any other file with one sentence.

How the scale is found when none is given, from the set of distinct ratings:

    whole numbers       1..5, 1..10 or 1..100 (0.. where a 0 occurs), whichever holds them first
    multiples of 1/2    0.5..4, 0.5..5 or 0.5..10 (0.. where a 0 occurs)
    anything else       ten bins of equal width between the whole numbers around them; the level is
                        the bin and the value of a level is the bin's centre

A row whose rating is off a given scale is left out and counted in `refused`. Nothing is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from producers.datasets.columns import Columns
from producers.datasets.formats import read
from producers.scale import Scale
from stream_app.errors import UserError

__all__ = ["Dataset", "Scale", "find_scale", "load"]

_BINS = 10


@dataclass(frozen=True, eq=False)
class Dataset:
    """Ratings as columns: users, items (n,) int64 or text, ratings (n,) float64, levels (n,) uint8.

    timestamps (n,) int64 seconds or None; titles by item id or None; `refused` rows of the file are
    not in the columns. The columns are raw: they must not leave the devices.
    """

    users: NDArray[np.int64] | NDArray[np.str_]
    items: NDArray[np.int64] | NDArray[np.str_]
    ratings: NDArray[np.float64]
    levels: NDArray[np.uint8]
    timestamps: NDArray[np.int64] | None
    titles: Mapping[int | str, str] | None
    scale: Scale
    name: str
    refused: int = 0

    def __len__(self) -> int:
        return len(self.ratings)

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name!r}, {len(self)} ratings on {self.scale}, {self.refused} refused)"
        )

    def in_time_order(self) -> Dataset:
        """Return the rows by time; ties, and files without times, keep the order of the file."""
        if self.timestamps is None or (np.diff(self.timestamps) >= 0).all():
            return self
        order = np.argsort(self.timestamps, kind="stable")
        return replace(
            self,
            users=self.users[order],
            items=self.items[order],
            ratings=self.ratings[order],
            levels=self.levels[order],
            timestamps=self.timestamps[order],
        )


def load(path: Path | str, scale: Scale | None = None) -> Dataset:
    """Return the data set in a file; raises `UserError` for a file without ratings on the scale."""
    path = Path(path).expanduser()
    columns = read(path)
    scale = scale or find_scale(columns.ratings, path)
    levels, on_scale = scale.classify(columns.ratings)
    if not on_scale.any():
        raise UserError(
            f"{path}: no rating lies on the scale {scale}; give the file's own with --scale"
        )
    if not on_scale.all():
        columns = _keep(columns, on_scale)
        levels = levels[on_scale]
    return Dataset(
        columns.users,
        columns.items,
        columns.ratings,
        levels,
        columns.timestamps,
        columns.titles,
        scale,
        path.name,
        int((~on_scale).sum()),
    )


def find_scale(ratings: NDArray[np.float64], path: Path | str = "ratings") -> Scale:
    """Return the smallest usual scale that holds every rating, or ten bins for real-valued ones."""
    distinct = np.unique(ratings)
    low, high = float(distinct[0]), float(distinct[-1])
    if low == high and low not in (1.0, 2.0, 3.0, 4.0, 5.0):
        raise UserError(
            f"{path}: all ratings are equal, so the scale is unknown; give it with --scale"
        )
    if (distinct == np.rint(distinct)).all() and low >= 0 and high <= 100:
        top = next(top for top in (5, 10, 100) if high <= top)
        return Scale(0 if low < 1 else 1, top, 1)
    if (distinct * 2 == np.rint(distinct * 2)).all() and low >= 0 and high <= 10:
        top = next(top for top in (4, 5, 10) if high <= top)
        return Scale(0 if low < 0.5 else 0.5, top, 0.5)
    bottom, top = math.floor(low), math.ceil(high)
    if not top - bottom <= 1e6:
        raise UserError(
            f"{path}: the ratings span too much for ten bins; give the scale with --scale"
        )
    return Scale(bottom, top, (top - bottom) / _BINS, binned=True)


def _keep(columns: Columns, rows: NDArray[np.bool_]) -> Columns:
    times = columns.timestamps
    return Columns(
        columns.users[rows],
        columns.items[rows],
        columns.ratings[rows],
        None if times is None else times[rows],
        columns.titles,
    )

"""Data sets of ratings as columns, loaded from files.

A `Dataset` has one row per rating. `load` reads MovieLens archives and tables
(`producers.datasets.formats`), finds the scale where none is given, and rejects any
other file with one sentence.

A row whose rating is off a given scale is left out and counted in `refused`. Nothing is rounded.

The scale follows from the set of distinct ratings:

    whole numbers       1..5, 1..10 or 1..100 (0.. where a 0 occurs), whichever holds them first
    multiples of 1/2    0.5..4, 0.5..5 or 0.5..10 (0.. where a 0 occurs)
    anything else       ten bins of equal width between the whole numbers around them; the level is
                        the bin and the value of a level is the bin's centre

A few stray values at one end, often a 0 for "not rated", widen the scale and so weaken every report
on it: `rare_end` finds them.

Rows are in the order of their times, equal ones in that of the file, or of what stands for it:

    no times                      the order of the file
    no times, sorted by user      mixed at random by a seed; the rows of one user keep their order

A file sorted by user, read as a stream, would hold one user after the other: every rating would be
predicted from other users' finished histories, and a learner would never meet a user again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from producers.datasets.columns import Descriptions
from producers.datasets.formats import read
from producers.scale import Scale
from stream_app.errors import UserError

__all__ = ["Dataset", "Scale", "load"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Ratings as columns: users, items (n,) int64 or text, ratings (n,) float64, levels (n,) uint8.

    timestamps (n,) int64 seconds or None; what is public of items by id or None; `refused` rows of
    the file are not in the columns; `scale_warning`: a sentence about stray ratings that widen the
    scale; `is_mixed`: it has no times, and the rows were put into a random order. The columns are
    raw: they must not leave the devices.
    """

    users: NDArray[np.int64] | NDArray[np.str_]
    items: NDArray[np.int64] | NDArray[np.str_]
    ratings: NDArray[np.float64]
    levels: NDArray[np.uint8]
    timestamps: NDArray[np.int64] | None
    described: Descriptions | None
    scale: Scale
    name: str
    refused: int = 0
    scale_warning: str | None = None
    is_mixed: bool = False

    def __len__(self) -> int:
        return len(self.ratings)

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name!r}, {len(self)} ratings on {self.scale}, {self.refused} refused)"
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is odd about the file, in sentences: its scale, and what stands for its times."""
        order = order_note(self.timestamps, self.users)
        found = (self.scale_warning, f"{self.name}: {order}" if order else None)
        return tuple(warning for warning in found if warning)

    def in_time_order(self, seed: int | None = 0) -> Dataset:
        """Return the rows by time, or in what stands for it (`producers.datasets.load`).

        Without a seed rows without times keep their order, as the parts of a stream have to.
        """
        if self.timestamps is not None and is_timed(self.timestamps):
            if (np.diff(self.timestamps) >= 0).all():
                return self
            order = np.argsort(self.timestamps, kind="stable")
        elif seed is None or self.is_mixed or not is_sorted_by_user(self.users):
            return self
        else:
            order = mixed(self.users, seed)
        return replace(self.at(order), is_mixed=not is_timed(self.timestamps))

    def at(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> Dataset:
        """Return these rows alone, in this order."""
        return replace(
            self,
            users=self.users[rows],
            items=self.items[rows],
            ratings=self.ratings[rows],
            levels=self.levels[rows],
            timestamps=None if self.timestamps is None else self.timestamps[rows],
        )


def load(path: Path | str, scale: Scale | None = None) -> Dataset:
    """Return the data set in a file; raises `UserError` for a file without ratings on the scale."""
    path = Path(path).expanduser()
    columns = read(path)
    warning = None
    if scale is None:
        scale = find_scale(columns.ratings, path)
        warning = rare_end(columns.ratings, scale)
    levels, on_scale = scale.classify(columns.ratings)
    if not on_scale.any():
        raise UserError(
            f"{path}: no rating lies on the scale {scale}; give the file's own with --scale"
        )
    found = Dataset(
        columns.users,
        columns.items,
        columns.ratings,
        levels,
        columns.timestamps,
        columns.described,
        scale,
        path.name,
        int((~on_scale).sum()),
        f"{path.name}: {warning}" if warning else None,
    )
    return found.at(on_scale) if found.refused else found


_BINS = 10
_RARE = 1 / 1000  # of the ratings, at one end of the scale
_NAMED = 3  # values that a warning lists


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


def rare_end(ratings: NDArray[np.float64], scale: Scale) -> str | None:
    """Return a warning if less than a thousandth of the ratings, at an end, widens the scale.

    `scale` is what `find_scale` returned; a scale of bins has no stray levels. None: no such
    rating.
    """
    if scale.binned:
        return None
    values, counts = np.unique(ratings, return_counts=True)
    shares = np.cumsum(counts) / len(ratings)
    kept = values[(shares >= _RARE) & (shares - counts / len(ratings) <= 1 - _RARE)]
    smaller = find_scale(kept)
    if smaller.binned or smaller.levels >= scale.levels:
        return None
    stray = (values < smaller.minimum) | (values > smaller.maximum)
    count = int(counts[stray].sum())
    found = " and ".join(f"{value:g}" for value in values[stray])
    if int(stray.sum()) > _NAMED:
        found = f"outside {smaller.minimum:g}..{smaller.maximum:g}"
    return (
        f"{count:,} of {len(ratings):,} ratings ({count / len(ratings):.2g} of all) "
        f"{'is' if count == 1 else 'are'} {found}, which makes {scale.levels} levels instead of "
        f"{smaller.levels} and every report weaker; if {'it is' if count == 1 else 'they are'} no "
        f"rating, give --scale {smaller.minimum:g} {smaller.maximum:g} {smaller.step:g}, which "
        "leaves such rows out"
    )


_SORTED = 0.1  # of the rows that could stand apart from their user's others, so many do


def is_timed(timestamps: NDArray[np.int64] | None) -> bool:
    """Return whether the times order anything."""
    return timestamps is not None and bool((timestamps != timestamps[:1]).any())


def is_sorted_by_user(users: NDArray[Any]) -> bool:
    """Return whether the rows of nearly every user stand together, and users have several."""
    changes = 1 + int((users[1:] != users[:-1]).sum())
    people = len(np.unique(users))
    return people > 1 and changes - people < _SORTED * (len(users) - people)


def mixed(users: NDArray[Any], seed: int) -> NDArray[np.int64]:
    """Return the rows (n,) in a random order in which the rows of each user keep theirs."""
    _, owners = np.unique(users, return_inverse=True)
    luck = np.random.Generator(np.random.PCG64(seed % 2**63)).random(len(owners))
    places = owners[np.argsort(luck, kind="stable")]
    order = np.empty(len(owners), np.int64)
    # The k-th place of a user holds the k-th row of that user.
    order[np.argsort(places, kind="stable")] = np.argsort(owners, kind="stable")
    return order


def order_note(timestamps: NDArray[np.int64] | None, users: NDArray[Any]) -> str | None:
    """Return what stands for the time order of a file without times; None for one with times."""
    if is_timed(timestamps) or len(users) < 2:
        return None
    if is_sorted_by_user(users):
        return (
            "no times, and the rows are sorted by user: the users are mixed at random by a seed, "
            "and the rows of each user keep the order of the file"
        )
    return "no times: the order of the file stands for the time order"

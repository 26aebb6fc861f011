"""What one device adds to the sums: its list of rated items as a bounded integer vector.

For a device with the items J, |J| = m, of values r, z = clip(r, 1, 5) - 3:

    counts       1 for every j, and sqrt 2 for every pair j < k     (`triangle.py`)      norm m
    differences  z_j - z_k for every pair j < k                     norm^2  m sum z^2 - (sum z)^2
    values       z_j for every j                                    norm^2  sum z^2

Without differences, values alone are a part or none: beside counts they add little to the norm.
The vector is divided by its L2 norm, one weight w for all of its entries (McSherry and Mironov
2009, section 4.2: a user of many ratings weighs less on each), so that sums of differences over
sums of counts stay weighted means. Then it is rounded to the grid of `grid.py`, where its norm in
integers is at most the bound, whatever the list holds. A device whose list is empty adds nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.campaigns import triangle
from stream_app.campaigns.grid import to_grid

MIDDLE = 3.0  # stars
REACH = 2.0  # stars from the middle to either end of the internal scale


class Contribution(NamedTuple):
    """Rising places (p,) in the sums and what is added at each, integers (p,) of bounded norm."""

    places: NDArray[np.int64]
    integers: NDArray[np.int32]


def place_count(items: int, *, differences: bool, means: bool = False) -> int:
    """Return the number of coordinates of the sums over `items`."""
    counts = triangle.length(items)
    if differences:
        return 2 * counts  # pairs and one value an item: as many again
    return counts + (items if means else 0)


def contribution(
    slots: NDArray[np.integer],
    values: NDArray[np.floating],
    items: int,
    bound: int,
    *,
    differences: bool,
    means: bool = False,
) -> Contribution:
    """Return what a device adds: slots (m,) of its items, each at most once, values (m,) in stars.

    means: values are a part where differences are none.

    Raises ValueError for slots outside 0 .. items - 1, an item that is twice there, another number
    of values, or a value that is not finite: the norm is that of a list of different items.
    """
    at, stars = _checked(slots, values, items)
    first, second = np.triu_indices(len(at), 1)
    pairs = triangle.pair_places(at, items)
    places = [at, pairs]
    parts = [np.ones(len(at)), np.full(len(pairs), triangle.ROOT_2)]
    z = np.clip(stars, MIDDLE - REACH, MIDDLE + REACH) - MIDDLE
    start = triangle.length(items)
    if differences or means:
        places.append(start + at)
        parts.append(z)
    if differences:
        places.append(start + pairs)
        parts.append(z[first] - z[second])
    vector = np.concatenate(parts)
    norm = float(np.sqrt(np.square(vector).sum()))
    integers = to_grid(vector / norm if norm else vector, bound)
    return Contribution(np.concatenate(places), integers)


def _checked(
    slots: NDArray[np.integer], values: NDArray[np.floating], items: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return slots, rising, and their values; ValueError as `contribution` says."""
    at, stars = np.asarray(slots, np.intp), np.asarray(values, np.float64)
    if at.ndim != 1 or at.shape != stars.shape:
        raise ValueError(f"{at.size} slots and {stars.size} values: one value for each item")
    if not np.isfinite(stars).all():
        raise ValueError("a value is not a finite number of stars")
    order = np.argsort(at, kind="stable")
    at, stars = at[order], stars[order]
    if len(at) and not 0 <= at[0] <= at[-1] < items:
        raise ValueError(f"slots {at[0]} to {at[-1]}: must be 0 to {items - 1}")
    if (np.diff(at) == 0).any():
        raise ValueError("an item is twice in a list: each may be there once")
    return at, stars

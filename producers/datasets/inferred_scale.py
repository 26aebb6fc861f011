"""The scale of a file of ratings when none is given, from the set of distinct ratings.

    whole numbers       1..5, 1..10 or 1..100 (0.. where a 0 occurs), whichever holds them first
    multiples of 1/2    0.5..4, 0.5..5 or 0.5..10 (0.. where a 0 occurs)
    anything else       ten bins of equal width between the whole numbers around them; the level is
                        the bin and the value of a level is the bin's centre

A few stray values at one end, often a 0 for "not rated", widen the scale and so weaken every report
on it: `rare_end` finds them.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from producers.scale import Scale
from stream_app.errors import UserError

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

"""The scale of ratings: the allowed numbers, and the level of each.

    grid     level k has the value  minimum + k * step            (1..5 by 1: levels 0..4)
    binned   level k holds the bin [minimum + k * step, minimum + (k+1) * step) and has the bin's
             centre as its value; the last bin includes the maximum   (real-valued ratings)

On a grid a number is on the scale only if it is exactly one of the values: a device never rounds a
rating silently. Messages name the row and the scale, never the rating. Shapes: ratings (n,), levels
(n,) uint8, values (levels,) float64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Scale:
    """From `minimum` to `maximum` by `step`; 2 to 256 levels.

    >>> Scale(1, 5, 1).level(4)
    3
    >>> Scale(0.5, 5, 0.5).levels
    10
    """

    minimum: float = 1.0
    maximum: float = 5.0
    step: float = 1.0
    binned: bool = False

    def __post_init__(self) -> None:
        for name in ("minimum", "maximum", "step"):
            number = getattr(self, name)
            if (
                isinstance(number, bool)
                or not isinstance(number, Real)
                or not math.isfinite(number)
            ):
                raise ValueError(f"scale {name} {number!r}: give a finite number, as in 1 5 1")
            object.__setattr__(self, name, float(number))
        if self.step <= 0 or self.maximum <= self.minimum:
            raise ValueError(f"scale {self}: the step is above 0 and the maximum above the minimum")
        steps = (_exact(self.maximum) - _exact(self.minimum)) / _exact(self.step)
        if steps.denominator != 1:
            raise ValueError(f"scale {self}: the maximum is not a whole number of steps up")
        if not 2 <= self.levels <= 256:
            raise ValueError(f"scale {self}: {self.levels} levels, but there must be 2 to 256")

    def __str__(self) -> str:
        bins = " in bins" if self.binned else ""
        return f"{self.minimum:g}..{self.maximum:g} by {self.step:g}{bins}"

    @cached_property
    def levels(self) -> int:
        """Number of levels."""
        steps = int((_exact(self.maximum) - _exact(self.minimum)) / _exact(self.step))
        return steps if self.binned else steps + 1

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """The value of each level, read-only: the number itself on a grid, the centre of a bin."""
        low, step = _exact(self.minimum), _exact(self.step)
        shift = Fraction(1, 2) if self.binned else Fraction(0)
        values = np.array([float(low + (k + shift) * step) for k in range(self.levels)])
        values.setflags(write=False)  # they are computed once
        return values

    def level(self, raw_rating: object, row: str = "rating") -> int:
        """Return the level of one rating; ValueError unless it is exactly on the scale."""
        real = isinstance(raw_rating, Real) and not isinstance(raw_rating, bool)
        levels, on_scale = self.classify([raw_rating] if real else [math.nan])
        if not on_scale[0]:
            raise ValueError(
                f"{row}: must be a number on the scale {self}; ratings are not rounded"
            )
        return int(levels[0])

    def classify(self, raw_ratings: Any) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """Return (n,) levels and whether each rating is on the scale; off it, the level is 0."""
        x = (
            np.array([_float(r) for r in raw_ratings])
            if isinstance(raw_ratings, list)
            else raw_ratings
        )
        x = np.asarray(x, np.float64)
        inside = (x >= self.minimum) & (x <= self.maximum)  # False for NaN
        place = (np.where(inside, x, self.minimum) - self.minimum) / self.step
        if self.binned:
            k = np.minimum(np.floor(place), self.levels - 1).astype(np.uint8)
            return k, inside
        k = np.minimum(np.rint(place), self.levels - 1).astype(np.uint8)
        on_scale = inside & (self.values[k] == x)
        return np.where(on_scale, k, 0).astype(np.uint8), on_scale


def _exact(number: float) -> Fraction:
    """Return the decimal that the float is written as: 0.1 is one tenth."""
    return Fraction(repr(number))


def _float(number: Any) -> float:
    """Return the number as a float; NaN or infinity where a float cannot hold it exactly."""
    try:
        nearest = float(number)
    except OverflowError:
        return math.inf
    return nearest if nearest == number else math.nan

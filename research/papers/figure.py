"""A figure of a paper as values: its curves, what the paper claims, and what was measured instead.

A figure is the result of a pure function of ratings, seed and progress; drawing it, printing it and
keeping it are other modules' work.

What every figure takes: ratings as columns, and a call for each part of it that is done.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

NO_CLAIM = "no claim"  # what is measured where a paper says nothing


@dataclass(frozen=True)
class Series:
    """One curve: `x` and `y` of equal length, finite numbers."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise ValueError(f"series {self.name!r}: {len(self.x)} x and {len(self.y)} y")
        if not all(math.isfinite(value) for value in (*self.x, *self.y)):
            raise ValueError(f"series {self.name!r}: finite numbers only")

    def at(self, x: float) -> float:
        """Return y at x, linear between the points, which must rise; ValueError outside of them."""
        if not self.x or not self.x[0] <= x <= self.x[-1]:
            raise ValueError(f"series {self.name!r} has no value at {x}")
        for left, right, low, high in zip(self.x, self.x[1:], self.y, self.y[1:], strict=False):
            if left <= x <= right:
                share = (x - left) / (right - left) if right > left else 0.0
                return low + share * (high - low)
        return self.y[0]


@dataclass(frozen=True)
class Published:
    """A statement of the paper beside what was measured, in words and numbers."""

    what: str
    claimed: str
    measured: str
    agrees: bool


@dataclass(frozen=True)
class Figure:
    """id: `F3`; paper: authors and year; x, y: labels with units, and whether they are in logs.

    notes: what is not reproduced, and why. Raises ValueError for two series of one name.
    """

    id: str
    paper: str
    title: str
    x: str
    y: str
    log_x: bool
    log_y: bool
    series: tuple[Series, ...]
    published: tuple[Published, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [each.name for each in self.series]
        if len(set(names)) != len(names):
            raise ValueError(f"figure {self.id}: two series of one name in {names}")

    def named(self, name: str) -> Series:
        """Return the series of that name; ValueError for none."""
        for each in self.series:
            if each.name == name:
                return each
        raise ValueError(f"figure {self.id} has no series {name!r}")


Progress = Callable[[int, int], None]  # parts done, parts in all


class StarRatings(NamedTuple):
    """Users and items (n,) uint64, and their stars 1 .. 5 (n,)."""

    users: NDArray[np.uint64]
    items: NDArray[np.uint64]
    stars: NDArray[np.float64]


def silent(done: int, total: int) -> None:
    """Show no progress."""

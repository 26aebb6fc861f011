"""What every local mechanism promises: one protocol, one kind of id, one word for what it protects.

A mechanism turns the index of a rating level, 0 .. levels-1, into a report, 0 .. alphabet-1. Its
exact channel is the matrix

    L[z, v] = P(report = z | level = v)          shape (alphabet, levels), columns sum to 1

which the device samples from, the server decodes through, and the tests and attacks examine. The
id `family:levels:epsilon` (epsilon an exact rational, `inf` for no noise) names the channel
completely, so a server's allow-list of ids is a list of channels.
"""

from __future__ import annotations

from enum import StrEnum
from fractions import Fraction
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from stream_app.privacy.randomness import RandomSource


class Adjacency(StrEnum):
    """What two neighbouring inputs differ in; epsilons of different kinds do not add."""

    CELL = "cell"  # one (user, item) cell, missing <-> present included
    VALUE = "value"  # the value of one rating whose presence is public
    EVENT = "event"  # one rating event, added or replaced by nothing
    USER = "user"  # one user's whole record
    NOTHING = "nothing"  # no neighbours: nothing is protected


class Mechanism(Protocol):
    """A local mechanism over rating levels; a frozen value."""

    family: ClassVar[str]
    adjacency: ClassVar[Adjacency]

    @property
    def id(self) -> str:
        """The wire id, `family:levels:epsilon`."""

    @property
    def levels(self) -> int:
        """Number of rating levels that go in."""

    @property
    def alphabet(self) -> int:
        """Number of different reports that can come out."""

    @property
    def epsilon(self) -> Fraction | None:
        """The exact claim per rating under `adjacency`; None where nothing is claimed."""

    def release(self, levels: NDArray[np.uint8], source: RandomSource) -> NDArray[np.uint8]:
        """Turn (n,) level indices into (n,) reports; the only place where noise is drawn."""

    def log_likelihood(
        self, reports: NDArray[np.integer], given: NDArray[np.integer]
    ) -> NDArray[np.float64]:
        """Return ln P(report | level), exact up to float64; broadcasts."""

    def likelihood(self) -> NDArray[np.float64]:
        """Return the whole channel, shape (alphabet, levels)."""

    def value(self, reports: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return for each report an unbiased estimate of the level index behind it."""

    def square(self, reports: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return for each report an unbiased estimate of the level index squared."""

    def variance(self) -> NDArray[np.float64]:
        """Return Var[value(report) | level], shape (levels,), in squared levels."""


def check_levels(levels: NDArray[np.uint8], count: int) -> None:
    """Raise ValueError unless `levels` is (n,) uint8 below `count`; it names a row, no level."""
    if not isinstance(levels, np.ndarray) or levels.dtype != np.uint8 or levels.ndim != 1:
        raise ValueError("levels: give a one-dimensional uint8 array of level indices")
    outside = levels >= count if count < 256 else np.zeros(0, bool)
    if outside.any():
        raise ValueError(
            f"row {int(outside.argmax())}: the level is not on the scale of {count} levels"
        )

"""What a device has rated, as it looks it up when it reports: from a data set or from its own file.

keys        distinct item keys, rising, (m,) uint64
raw_levels  the level of each rating on the scale, (m,) uint8
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from producers.identities import Identities
from producers.scale import Scale


@dataclass(frozen=True, eq=False, repr=False)  # raw columns have no place in a log
class Rated:
    """The ratings of one device; see the module."""

    keys: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    raw_levels: NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, np.uint8))


class Ratings(Protocol):
    """Ratings by device."""

    def rated(self, device_id: bytes) -> Rated:
        """Return what a device has rated; nothing for one without ratings."""


class ScaledRatings(Ratings, Protocol):
    """Ratings by device, on a scale that is known; both look-ups may raise `Unreadable`."""

    @property
    def identities(self) -> Identities:
        """Seal what the devices that were looked up send."""

    @property
    def scale(self) -> Scale:
        """The scale of the levels."""

    def levels(self, device: bytes, keys: NDArray[np.uint64], missing: int) -> NDArray[np.uint16]:
        """Return the level of each of these items, (n,); `missing` where it is not rated."""

"""No mechanism at all: the report is the rating. NOTHING is protected; for baselines and attacks.

    P(z | v) = 1 if z = v else 0

There is no epsilon to claim (None, written `inf` in the id), no neighbour to hide among, and
whoever reads the topic reads the ratings. Metrics and replies made from such reports are labelled
`none`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from stream_app.privacy.mechanism import Adjacency, check_levels
from stream_app.privacy.randomness import RandomSource


@dataclass(frozen=True)
class Identity:
    """Release every level as it is: nothing is protected.

    >>> Identity(5).id
    'none:5:inf'
    """

    levels: int

    family: ClassVar[str] = "none"
    adjacency: ClassVar[Adjacency] = Adjacency.NOTHING

    def __post_init__(self) -> None:
        if type(self.levels) is not int or not 2 <= self.levels <= 256:
            raise ValueError(f"levels {self.levels!r}: a scale has 2 to 256 levels")

    @property
    def id(self) -> str:
        """The wire id, `none:levels:inf`."""
        return f"{self.family}:{self.levels}:inf"

    @property
    def alphabet(self) -> int:
        """Number of different reports: as many as levels."""
        return self.levels

    @property
    def epsilon(self) -> None:
        """Nothing is claimed."""
        return None

    def release(self, levels: NDArray[np.uint8], source: RandomSource) -> NDArray[np.uint8]:  # noqa: ARG002
        """Return a copy of the levels: NOTHING is protected."""
        check_levels(levels, self.levels)
        return levels.copy()

    def log_likelihood(
        self, reports: NDArray[np.integer], given: NDArray[np.integer]
    ) -> NDArray[np.float64]:
        """Return 0 where the report is the level and -inf elsewhere; broadcasts."""
        return np.where(np.equal(reports, given), 0.0, -np.inf)

    def likelihood(self) -> NDArray[np.float64]:
        """Return the unit matrix, shape (levels, levels)."""
        return np.eye(self.levels)

    def value(self, reports: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return the level index itself."""
        return np.asarray(reports, np.float64)

    def square(self, reports: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return the square of the level index."""
        return np.asarray(reports, np.float64) ** 2

    def variance(self) -> NDArray[np.float64]:
        """Return zeros, shape (levels,): no noise is added."""
        return np.zeros(self.levels)

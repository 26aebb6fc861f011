"""The identity: the report is the rating. NOTHING is protected; for baselines and attacks.

    P(z | v) = 1 if z = v else 0

It claims no epsilon (None, written `inf` in the id) and has no neighbours: a reader of the topic
reads the ratings. Metrics and replies computed from such reports are labelled `none`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from stream_app.privacy.exact.certificates import Certificate
from stream_app.privacy.mechanism import Mechanism, check_inputs, without_masks
from stream_app.privacy.privacy_map import Adjacency, OutputMeasure
from stream_app.privacy.randomness import RandomSource
from stream_app.privacy.ticket import admitted


@dataclass(frozen=True)
class Identity(Mechanism):
    """Release every level as it is: nothing is protected.

    >>> Identity(5).id
    'none:5:inf'
    """

    levels: int
    epsilon: None = field(default=None, init=False, repr=False)

    family: ClassVar[str] = "none"
    adjacency: ClassVar[Adjacency] = Adjacency.NOTHING
    output_measure: ClassVar[OutputMeasure] = OutputMeasure.NOTHING
    protected: ClassVar[str] = "nothing"
    observed: ClassVar[str] = "everything: the reports are the ratings"
    limit: ClassVar[str] = "for baselines and attacks only"
    no_estimate: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        if type(self.levels) is not int or not 2 <= self.levels <= 256:
            raise ValueError(f"levels {self.levels!r}: a scale has 2 to 256 levels")

    def table(self, mask: int = 0) -> None:  # noqa: ARG002 (the protocol's signature)
        """Return None: no noise is drawn."""
        return

    def certify(self) -> tuple[Certificate, ...]:
        """Return no certificate: nothing is claimed."""
        return ()

    def release(
        self,
        inputs: NDArray[np.uint8],
        source: RandomSource,
        masks: NDArray[np.uint16] | None = None,
    ) -> NDArray[np.uint8]:
        """Return a copy of the levels: NOTHING is protected."""
        without_masks(masks)
        check_inputs(inputs, self.levels)
        admitted(source, self, len(inputs))
        return inputs.copy()

    def value(self, reports: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return the level index itself."""
        return np.asarray(reports, np.float64)

    def square(self, reports: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return the square of the level index."""
        return np.asarray(reports, np.float64) ** 2

    def variance(self) -> NDArray[np.float64]:
        """Return zeros, shape (levels,): no noise is added."""
        return np.zeros(self.levels)

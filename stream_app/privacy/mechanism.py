"""What every local mechanism promises: one protocol, one kind of id, one word for what it protects.

A mechanism over ratings turns an input into a report, 0 .. alphabet-1. An input is the index of a
rating level, 0 .. levels-1; where presence is protected there is one input more, `levels`, for "no
rating here", and the last report, alphabet-1, says "nothing to report". Its exact channel is

    L[z, v] = P(report = z | input = v)          shape (alphabet, inputs), columns sum to 1

which the device samples from, the server decodes through, and the tests and attacks examine. The
id `family:levels:epsilon` (epsilon an exact rational, `inf` for no noise; some families append more
fields) names the channel completely, so a server's allow-list of ids is a list of channels. A
mechanism over a public partition of the levels has one channel for each mask (`masks`), and the
mask stands beside the report.

Debiasing. Where a channel can be inverted, functions of the report have

    value protected      E[value | v] = v            E[square | v] = v^2
    presence protected   E[presence | v] = 1 if v is a rating, else 0
                         E[value | v] = v - (levels - 1) / 2 if v is a rating, else 0
"""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from stream_app.privacy.adjacency import Adjacency
from stream_app.privacy.certificates import Certificate
from stream_app.privacy.randomness import RandomSource
from stream_app.privacy.tables import Table


class Mechanism(Protocol):
    """A local mechanism over rating levels; a frozen value."""

    family: ClassVar[str]
    adjacency: ClassVar[Adjacency]

    @property
    def id(self) -> str:
        """The wire id, `family:levels:epsilon`."""

    @property
    def levels(self) -> int:
        """Number of rating levels."""

    @property
    def inputs(self) -> int:
        """Number of inputs: `levels`, or one more where presence is protected."""

    @property
    def alphabet(self) -> int:
        """Number of different reports that can come out, under any mask."""

    @property
    def masks(self) -> range:
        """The masks that may stand beside a report; empty where there is no such column."""

    @property
    def epsilon(self) -> Fraction | None:
        """The exact claim per report under `adjacency`; None where nothing is claimed."""

    def table(self, mask: int = 0) -> Table | None:
        """Return the integer table that is sampled from; None where there is no noise."""

    def certify(self) -> tuple[Certificate, ...]:
        """Prove the claim on every table that is sampled from, anew; ValueError where it fails."""

    def release(
        self,
        inputs: NDArray[np.uint8],
        source: RandomSource,
        masks: NDArray[np.uint16] | None = None,
    ) -> NDArray[np.uint8]:
        """Turn (n,) inputs into (n,) reports, the only place where noise is drawn.

        The source is a ticket that a device's journal minted, or one that marks what it touches as
        a test; any other is refused (`ticket.admitted`).
        """

    def log_likelihood(
        self, reports: NDArray[np.integer], given: NDArray[np.integer], mask: int = 0
    ) -> NDArray[np.float64]:
        """Return ln P(report | input), exact up to float64; broadcasts."""

    def likelihood(self, mask: int = 0) -> NDArray[np.float64]:
        """Return the whole channel, shape (alphabet, inputs); fewer reports under some masks."""

    def presence(self, reports: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return for each report an unbiased estimate of 1[there is a rating]."""

    def value(self, reports: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return for each report an unbiased estimate of the level; NaN where there is none."""

    def square(self, reports: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return for each report an unbiased estimate of the level squared; NaN without one."""

    def variance(self) -> NDArray[np.float64]:
        """Return Var[value(report) | input], shape (inputs,), in squared levels."""


def check_inputs(inputs: NDArray[np.uint8], count: int) -> None:
    """Raise ValueError unless `inputs` is (n,) uint8 below `count`; it names a row, no level."""
    if not isinstance(inputs, np.ndarray) or inputs.dtype != np.uint8 or inputs.ndim != 1:
        raise ValueError("levels: give a one-dimensional uint8 array of level indices")
    outside = inputs >= count if count < 256 else np.zeros(0, bool)
    if outside.any():
        raise ValueError(
            f"row {int(outside.argmax())}: the level is not on the scale of {count} levels"
        )


def without_masks(masks: NDArray[np.uint16] | None) -> None:
    """Raise ValueError where masks are given to a mechanism that has none."""
    if masks is not None:
        raise ValueError("masks: this mechanism does not report over a partition of the levels")

"""Columns of a batch: one row for each reported (user, item) cell.

Where presence is protected, a device reports every cell of a public scope. `missing` marks reports
that mean "no rating". Any other report may be a fake: `priors` is the probability that its cell
holds a rating, before the report.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class RatingColumns(NamedTuple):
    """Cells in log order, (m,) each."""

    users: NDArray[np.uint64]
    items: NDArray[np.uint64]
    reports: NDArray[np.uint8]
    channels: NDArray[np.uint16]
    priors: NDArray[np.float32]  # 1 where presence is public
    held_out: NDArray[np.bool_]
    missing: NDArray[np.bool_]

    def at(self, selected: NDArray[np.bool_]) -> RatingColumns:
        """Return the selected cells."""
        return RatingColumns._make(column[selected] for column in self)


class Records(NamedTuple):
    """Records in log order: devices (n, 2), mechanisms (n,) by place in the allow-list, cells (n,)
    of each, and days (n,)."""

    devices: NDArray[np.uint64]
    mechanisms: NDArray[np.uint8]
    counts: NDArray[np.int64]
    days: NDArray[np.int64]

    def at(self, selected: NDArray[np.bool_]) -> Records:
        """Return the selected records."""
        return Records._make(column[selected] for column in self)


class MissingReports(NamedTuple):
    """Reports (k,) of "missing": predicted, not learned; row -1 for an unknown item."""

    rows: NDArray[np.int64]
    reports: NDArray[np.uint8]
    channels: NDArray[np.uint16]
    predicted: NDArray[np.float64]


NO_MISSING = MissingReports(
    np.empty(0, np.int64), np.empty(0, np.uint8), np.empty(0, np.uint16), np.empty(0)
)

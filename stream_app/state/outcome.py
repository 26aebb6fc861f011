"""Columns and effects of one batch.

The effects are consumed by metrics, the index and the rejection topic: position, reason and size of
each rejected record, never its payload.

A record rejected by decoding, for a jump of its sequence number or because its device is erased
gives one `Rejection`; a duplicate gives none. A replay gives the same ones again.

The columns have a row for each reported (user, item) cell. Where presence is protected, a device
reports every cell of a public scope. `missing` marks reports that mean "no rating". Any other
report may be a fake: `priors` is the probability that its cell holds a rating, before the report.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.log.ledger import DUPLICATE
from stream_app.models.factorization.learner import UpdateResult
from stream_app.wire import REASONS, Batch, Rejection


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


@dataclass(frozen=True, eq=False)
class BatchOutcome:
    """Effects of one batch of n records and m applied ratings.

    records, reasons (n,): outcome of each record, and the reason of a rejected one (an index into
    `REASONS`, 0 for none). gaps: skipped sequence numbers. reused (n,): duplicates whose number had
    other contents before. duplicates: ratings of duplicate
    records. The columns (m,) describe applied ratings; `priors` is the probability that there is a
    rating at all, `rows` the item's row, -1 where it has none. missing: reports of "missing".
    """

    records: NDArray[np.uint8]
    reasons: NDArray[np.uint8]
    gaps: int
    reused: NDArray[np.bool_]
    duplicates: int
    users: NDArray[np.uint64]
    items: NDArray[np.uint64]
    reports: NDArray[np.uint8]
    channels: NDArray[np.uint16]
    priors: NDArray[np.float32]
    held_out: NDArray[np.bool_]
    rows: NDArray[np.int64]
    update: UpdateResult
    missing: MissingReports


def rejected(topic: str, batch: Batch, outcome: BatchOutcome) -> Iterator[Rejection]:
    """Yield the rejections of a batch of a topic, in the order of their offsets."""
    for i in np.flatnonzero(outcome.records > DUPLICATE):
        reason = REASONS[outcome.reasons[i]]
        offset, size = int(batch.offsets[i]), int(batch.sizes[i])
        yield Rejection(topic, batch.partition, offset, reason, size)

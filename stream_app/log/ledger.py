"""The ledger: what happened to every record, in numbers that a replay must reproduce exactly.

Per rating partition p at cut r:

    applied + duplicate + rejected + absent == end(p, r) - start(p)
    offset_sum == sum of mix(offset) over every record of the partition that was seen (mod 2^64)

and over all partitions a chain c <- mix(c + mix(offset) + partition * 16 + outcome) in canonical
order, which no two orders or outcomes share (up to hash collisions). `absent` are offsets that hold
no record.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from stream_app.wire import REASON_CODE, REASONS, Reason

APPLIED, DUPLICATE, JUMPED, SET_ASIDE = 0, 1, 2, 3
"""Outcome of a record: applied; seen before; `seq` out of reach; set aside while decoding."""

RATINGS = ("learned", "held_out", "clipped", "duplicate")
"""What happened to a rating of an accepted record; `clipped` are among the learned."""


class Ledger:
    """Counts per partition: `records` (partitions, 4), `reasons` (partitions, reasons), `ratings`
    (partitions, 4)."""

    def __init__(self, partitions: int) -> None:
        self.records = np.zeros((partitions, 4), np.int64)
        self.reasons = np.zeros((partitions, len(REASONS)), np.int64)
        self.ratings = np.zeros((partitions, len(RATINGS)), np.int64)
        self.gaps = np.zeros(partitions, np.int64)
        self.offset_sum = np.zeros(partitions, np.uint64)
        self.absent = np.zeros(partitions, np.int64)
        self.ends = np.zeros(partitions, np.int64)
        self.chain = np.zeros(1, np.uint64)

    def add(
        self,
        partition: int,
        outcomes: NDArray[np.uint8],
        reasons: NDArray[np.uint8],
        ratings: Mapping[str, int],
        gaps: int,
        offset_sum: int,
        chain: int,
    ) -> None:
        """Enter one run: outcome and reason of each record, and how many ratings went which way."""
        self.records[partition] += np.bincount(outcomes, minlength=4)
        self.reasons[partition] += np.bincount(
            reasons[outcomes == SET_ASIDE], minlength=len(REASONS)
        )
        jumped = int((outcomes == JUMPED).sum())
        self.reasons[partition, REASON_CODE[Reason.SEQ_JUMP]] += jumped
        self.ratings[partition] += np.array([ratings[name] for name in RATINGS], np.int64)
        self.gaps[partition] += gaps
        with np.errstate(over="ignore"):
            self.offset_sum[partition] += np.uint64(offset_sum)
        self.chain[0] = chain

    def end_round(self, ends: tuple[int, ...]) -> None:
        """Close a round: offsets below `ends` that held no record are counted as absent."""
        self.ends[:] = ends
        self.absent[:] = self.ends - self.records.sum(axis=1)

    def counts(self) -> dict[str, int]:
        """Return the totals over all partitions in domain words."""
        applied, duplicate, jumped, aside = (int(n) for n in self.records.sum(axis=0))
        totals = {"applied": applied, "duplicate": duplicate, "rejected": jumped + aside}
        ratings = zip(RATINGS, self.ratings.sum(axis=0), strict=True)
        return (
            totals
            | {"absent": int(self.absent.sum()), "seq_gaps": int(self.gaps.sum())}
            | {f"ratings_{name}": int(n) for name, n in ratings}
        )

    def rejected(self) -> dict[str, int]:
        """Return how many records were set aside, by reason."""
        totals = self.reasons.sum(axis=0)
        return {str(r): int(n) for r, n in zip(REASONS, totals, strict=True) if n}

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return everything, for a digest."""
        return dict(vars(self))

"""Copies of moments at a cut, which another thread makes symmetric."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.cooccurrence.pair_tables import HALF
from stream_app.kernels.cooccurrence.pair_updates import DEVICES, REPORTS, SQUARES, WEIGHTS
from stream_app.ranking.pair_counts import WEIGHT_ONE, PairCounts


@dataclass(frozen=True, eq=False)
class PairSnapshot:
    """The used part of the tables, in integers, with what scales them; `counts` takes tens of
    milliseconds, the copy itself a few.

    held_out: the share of ratings that is not counted. channel: as in `PairCounts`.
    """

    keys: NDArray[np.uint64]
    pairs: tuple[NDArray[np.uint16], NDArray[np.uint16]]
    between: tuple[NDArray[np.uint16], NDArray[np.uint16]] | None
    within: tuple[NDArray[np.uint16], NDArray[np.uint16]] | None
    recent: NDArray[np.float32]
    recent_total: float
    total: int
    moments: NDArray[np.int64]
    numbers: NDArray[np.int64]
    held_out: float
    order_one: float
    channel: tuple[float, float] | None
    cut: int

    def counts(self) -> PairCounts:
        """Return the second moments as derivations take them."""
        reports, weights, squares = (
            self.moments[:, column].astype(np.float32) for column in (REPORTS, WEIGHTS, SQUARES)
        )
        pairs = _whole(*self.pairs)
        pairs = pairs + pairs.T
        devices = np.float32(self.numbers[DEVICES])
        if self.channel is None:
            # A pair is counted if neither rating is held out, a rating if it is not.
            pairs *= np.float32(1 / WEIGHT_ONE**2 / (1 - self.held_out))
            weights /= np.float32(WEIGHT_ONE)
            squares /= np.float32(WEIGHT_ONE**2)
            exposures = np.full(len(self.keys), devices, np.float32)
        else:
            exposures = reports
            # Reports on both items of a pair are rarer than on either: items are held out, or left
            # out of a device's sample, independently of each other.
            pairs *= devices / np.maximum(np.maximum(reports[:, None], reports), 1)
        np.fill_diagonal(pairs, squares)
        between, within = (
            None if table is None else _whole(*table) for table in (self.between, self.within)
        )
        if within is not None:
            within /= np.float32(self.order_one)
        return PairCounts(
            self.keys, pairs, squares, weights, exposures, reports, between, within,
            self.recent, self.recent_total, float(self.total), float(devices),
            self.channel, self.cut,
        )  # fmt: skip


def _whole(low: NDArray[np.uint16], high: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Return sums from their two halves."""
    total = high.astype(np.float32)
    total *= np.float32(HALF)
    total += low
    return total

"""The ledger: what happened to every record, in numbers that a replay must reproduce exactly.

Per rating partition p at cut r, from where the log is taken up, `starts`:

    applied + duplicate + rejected + absent == end(p, r) - start(p)
    offset_sum == sum of mix(offset) over every record of the partition that was seen (mod 2^64)

and over all partitions a chain c <- mix(c + mix(offset) + partition * 16 + outcome) in canonical
order, which no two orders or outcomes share (up to hash collisions). `absent` are offsets that hold
no record. `forgotten` are the devices that the cut log names, in its order: whose records are
refused from there on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_app.wire import REASONS
from stream_app.wire.state_records import SmallArray

APPLIED, DUPLICATE, JUMPED, REJECTED = 0, 1, 2, 3
"""Outcome of a record: applied; seen before; `seq` out of reach; rejected while decoding."""

RATINGS = ("learned", "held_out", "clipped", "duplicate")
"""What happened to a rating of an accepted record; `clipped` are among the learned."""


class Ledger:
    """Counts per partition: `records` (partitions, 4), `reasons` (partitions, reasons), `ratings`
    (partitions, 4); `forgotten` (n, 2) uint64, pseudonyms as two little-endian words."""

    def __init__(self, partitions: int, starts: Sequence[int] | None = None) -> None:
        if starts is not None and len(starts) != partitions:
            raise ValueError(f"{len(starts)} starts for {partitions} partitions: give one each")
        self.starts = np.array(starts or [0] * partitions, np.int64)
        self.records = np.zeros((partitions, 4), np.int64)
        self.reasons = np.zeros((partitions, len(REASONS)), np.int64)
        self.ratings = np.zeros((partitions, len(RATINGS)), np.int64)
        self.gaps = np.zeros(partitions, np.int64)
        self.offset_sum = np.zeros(partitions, np.uint64)
        self.absent = np.zeros(partitions, np.int64)
        self.ends = self.starts.copy()
        self.chain = np.zeros(1, np.uint64)
        self.forgotten = np.zeros((0, 2), np.uint64)

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
        """Enter one run: outcome of each record, why it was rejected (0 where it was not), and how
        many ratings went which way."""
        self.records[partition] += np.bincount(outcomes, minlength=4)
        if outcomes.max(initial=0) > DUPLICATE:
            self.reasons[partition] += np.bincount(
                reasons[outcomes > DUPLICATE], minlength=len(REASONS)
            )
        self.ratings[partition] += np.array([ratings[name] for name in RATINGS], np.int64)
        self.gaps[partition] += gaps
        with np.errstate(over="ignore"):
            self.offset_sum[partition] += np.uint64(offset_sum)
        self.chain[0] = chain

    def forget(self, device: NDArray[np.uint64]) -> None:
        """Note a device (2,) that is forgotten from here on."""
        self.forgotten = np.concatenate((self.forgotten, device.reshape(1, 2)))

    def end_round(self, ends: tuple[int, ...]) -> None:
        """Close a round: offsets below `ends` that held no record are counted as absent."""
        self.ends[:] = ends
        self.absent[:] = self.ends - self.starts - self.records.sum(axis=1)

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
        """Return how many records were rejected, by reason."""
        totals = self.reasons.sum(axis=0)
        return {str(r): int(n) for r, n in zip(REASONS, totals, strict=True) if n}

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return everything: the arrays themselves, not copies."""
        return dict(vars(self))

    def small_arrays(self) -> tuple[SmallArray, ...]:
        """Return everything as a manifest holds it, in the order of names."""
        return tuple(
            SmallArray(name, array.dtype.str, array.shape, array.tobytes())
            for name, array in sorted(self.arrays().items())
        )

    def load(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Replace everything by what `arrays()` returned; raises ValueError where it does not
        fit."""
        own = self.arrays()
        if arrays.keys() != own.keys():
            odd = sorted(arrays.keys() ^ own.keys())
            raise ValueError(f"arrays {odd}: a ledger has {sorted(own)}, no more and no less")
        for name, array in arrays.items():
            wanted = (len(array), 2) if name == "forgotten" and array.ndim else own[name].shape
            if array.shape != wanted or array.dtype.newbyteorder("=") != own[name].dtype:
                raise ValueError(
                    f"array {name}: {array.dtype}{list(array.shape)}, and a ledger of "
                    f"{len(self.ends)} partitions has {own[name].dtype}{list(wanted)}"
                )
        for name, array in arrays.items():
            setattr(self, name, np.array(array, own[name].dtype))

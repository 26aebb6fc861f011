"""The ledger: counts of the outcomes of all records, which a replay must reproduce exactly.

Per rating partition p at cut r, counted from the start offset of the log, `starts`:

    applied + duplicate + rejected + absent == end(p, r) - start(p)
    offset_sum == sum of mix(offset) over every record read from the partition (mod 2^64)

and over all partitions a chain c <- mix(c + mix(offset) + partition * 16 + outcome) in canonical
order, which differs for different orders or outcomes (up to hash collisions). `absent` counts the
offsets without a record. `forgotten` lists the forgotten devices in the order of the cut log; their
later records are rejected. `contract` is the version of the event format by which the newest round
was decoded. `reused` counts events of a number that their device had given to other contents
before; they are among the duplicates. `mechanisms` counts the reports of the applied records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_app.wire import REASONS
from stream_app.wire.state_records import SmallArray

APPLIED, DUPLICATE, JUMPED, REJECTED = 0, 1, 2, 3
"""Outcome of a record: applied; duplicate; held back for its `seq`; rejected while decoding."""

RATINGS = ("learned", "held_out", "clipped", "duplicate")
"""Outcomes of the ratings of accepted records; `clipped` ratings also count as learned."""


class Ledger:
    """Counts per partition: `records` (partitions, 4), `reasons` (partitions, reasons), `ratings`
    (partitions, 4); `forgotten` (n, 2) uint64, pseudonyms as two little-endian words; `contract`
    (1,); `mechanisms` (mechanisms + 1,), by place on the allow-list, the last for reports without
    protection that came with an adopted state and whose mechanism is not on it."""

    def __init__(
        self,
        partitions: int,
        starts: Sequence[int] | None = None,
        contract: int = 1,
        mechanisms: int = 1,
    ) -> None:
        if starts is not None and len(starts) != partitions:
            raise ValueError(f"{len(starts)} starts for {partitions} partitions: give one each")
        self.starts = np.array(starts or [0] * partitions, np.int64)
        self.records = np.zeros((partitions, 4), np.int64)
        self.reasons = np.zeros((partitions, len(REASONS)), np.int64)
        self.ratings = np.zeros((partitions, len(RATINGS)), np.int64)
        self.gaps = np.zeros(partitions, np.int64)
        self.reused = np.zeros(partitions, np.int64)
        self.offset_sum = np.zeros(partitions, np.uint64)
        self.absent = np.zeros(partitions, np.int64)
        self.ends = self.starts.copy()
        self.chain = np.zeros(1, np.uint64)
        self.forgotten = np.zeros((0, 2), np.uint64)
        self.contract = np.array([contract], np.int64)
        self.mechanisms = np.zeros(mechanisms + 1, np.int64)

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
        """Add one run: outcome and reason (0: not rejected) of each record, and the number of
        ratings of each outcome."""
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

    def count_mechanisms(self, mechanisms: NDArray[np.uint8], counts: NDArray[np.int64]) -> None:
        """Add the reports of applied records (n,), each with its place on the allow-list."""
        np.add.at(self.mechanisms, mechanisms, counts)

    def allow(self, mechanisms: int) -> None:
        """Count the reports of so many mechanisms, the first of which are the former ones."""
        counts = np.zeros(mechanisms + 1, np.int64)
        counts[: len(self.mechanisms) - 1], counts[-1] = self.mechanisms[:-1], self.mechanisms[-1]
        self.mechanisms = counts

    def forget(self, device: NDArray[np.uint64]) -> None:
        """Add a forgotten device (2,)."""
        self.forgotten = np.concatenate((self.forgotten, device.reshape(1, 2)))

    def end_round(self, ends: tuple[int, ...]) -> None:
        """Close a round: offsets below `ends` that held no record are counted as absent."""
        self.ends[:] = ends
        self.absent[:] = self.ends - self.starts - self.records.sum(axis=1)

    def counts(self) -> dict[str, int]:
        """Return the totals over all partitions by name."""
        applied, duplicate, jumped, undecoded = (int(n) for n in self.records.sum(axis=0))
        totals = {"applied": applied, "duplicate": duplicate, "rejected": jumped + undecoded}
        ratings = zip(RATINGS, self.ratings.sum(axis=0), strict=True)
        return (
            totals
            | {"absent": int(self.absent.sum()), "seq_gaps": int(self.gaps.sum())}
            | {"seq_reused": int(self.reused.sum())}
            | {f"ratings_{name}": int(n) for name, n in ratings}
        )

    def rejected(self) -> dict[str, int]:
        """Return how many records were rejected, by reason."""
        totals = self.reasons.sum(axis=0)
        return {str(r): int(n) for r, n in zip(REASONS, totals, strict=True) if n}

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return all arrays by name: the arrays themselves, not copies."""
        return dict(vars(self))

    def small_arrays(self) -> tuple[SmallArray, ...]:
        """Return all arrays in the form of a manifest, in the order of names."""
        return tuple(
            SmallArray(name, array.dtype.str, array.shape, array.tobytes())
            for name, array in sorted(self.arrays().items())
        )

    def carry(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take the erased devices and the counts by mechanism of another ledger, and no more.

        Raises ValueError where they are missing or no such arrays.
        """
        forgotten = ledger_array(arrays, "forgotten", (None, 2), np.uint64)
        counts = ledger_array(arrays, "mechanisms", self.mechanisms.shape, np.int64)
        self.forgotten, self.mechanisms[:] = np.array(forgotten, np.uint64), counts

    def load(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Replace all arrays by the result of `arrays()` of another ledger of as many partitions.

        Raises ValueError for other names, types or shapes.
        """
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


def ledger_array(
    arrays: Mapping[str, NDArray[Any]], name: str, shape: tuple[int | None, ...], dtype: type
) -> NDArray[Any]:
    """Return one array of a ledger; ValueError unless it has the shape (None: any length) and type
    and holds no number below 0."""
    array = arrays.get(name)
    if array is None:
        raise ValueError(f"its ledger has no {name}, so it is no state: give another snapshot")
    wanted = np.dtype(dtype)
    lengths = zip(array.shape, shape, strict=False)
    fits = array.ndim == len(shape) and all(wish in (own, None) for own, wish in lengths)
    if not fits or array.dtype.newbyteorder("=") != wanted or (array < 0).any():
        expected = [length if length is not None else "n" for length in shape]
        raise ValueError(
            f"{name} of its ledger is {array.dtype}{list(array.shape)}, and a state has "
            f"{wanted}{expected} from 0 up: give another snapshot"
        )
    return array

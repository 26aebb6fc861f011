"""The strongest links from items to items, of one domain or of two, as a sparse table.

    places[a, p]        the p-th strongest target of source a, as a place of `targets`, or -1
    similarities[a, p]  how alike the two are, -1 .. 1; 0 where the row has fewer links

Rows are sorted by similarity, largest first; equal ones stand in the order of a hash of the key of
the target, so that every machine has the same row and no item gains by its number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_app.ranking.similarity.nearest import hash64
from stream_app.ranking.similarity.table import slots_of


@dataclass(frozen=True, eq=False)
class DomainLinks:
    """Links of n sources to m targets, at most k a row.

    sources (n,), targets (m,): keys of items, each once, in any order. places (n, k) int32,
    similarities (n, k) float32 as above. The targets are the public catalogue of their domain: an
    item without a link is one of them.

    Raises:
        ValueError: shapes that do not fit, an item twice, a place outside of `targets`, a
            similarity that is not in -1 .. 1.
    """

    sources: NDArray[np.uint64]
    targets: NDArray[np.uint64]
    places: NDArray[np.int32]
    similarities: NDArray[np.float32]

    def __post_init__(self) -> None:
        if self.places.ndim != 2 or self.places.shape != self.similarities.shape:
            raise ValueError(
                f"places {self.places.shape} and similarities {self.similarities.shape}: must be "
                "tables of one shape"
            )
        if len(self.places) != len(self.sources):
            raise ValueError(f"{len(self.places)} rows for {len(self.sources)} source items")
        for name, keys in (("source", self.sources), ("target", self.targets)):
            if len(np.unique(keys)) != len(keys):
                raise ValueError(f"{name} items: each may be there once")
        if self.places.size and not -1 <= self.places.min() <= self.places.max() < self.size:
            raise ValueError(f"places of links: must be -1 to {self.size - 1}")
        if not (np.abs(self.similarities) <= 1).all():
            raise ValueError("similarities of links: must be -1 to 1")

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def size(self) -> int:
        """The items of the target domain."""
        return len(self.targets)

    def rows(self, items: ArrayLike) -> NDArray[np.int64]:
        """Return (h,) the row of each of `items` (h,) keys, -1 for an item that is no source."""
        return slots_of(self.sources, items)

    def dense(self, rows: ArrayLike) -> NDArray[np.float64]:
        """Return (h, m) similarities of some rows to every target, 0 where no link is kept; a row
        of -1 has none."""
        wanted = np.asarray(rows, np.int64)
        found = np.zeros((len(wanted), self.size + 1))
        for at, row in enumerate(wanted):
            if row >= 0:  # the last column takes what is no link
                found[at, self.places[row]] = self.similarities[row]
        return found[:, : self.size]


def strongest(
    sources: NDArray[np.uint64],
    targets: NDArray[np.uint64],
    similarities: NDArray[np.floating],
    most: int,
) -> DomainLinks:
    """Return the `most` links of each row that are above 0; similarities (n, m), NaN is no link.

    An item that is both a source and a target has no link to itself.

    >>> keys = np.array([7, 8, 9], np.uint64)
    >>> strongest(keys[:1], keys[1:], np.array([[0.0, 0.5]]), 2).places.tolist()
    [[1, -1]]
    """
    if most < 1:
        raise ValueError(f"links a row: {most}, must be 1 or more")
    values = np.nan_to_num(np.asarray(similarities, np.float32), nan=0.0)
    if values.shape != (len(sources), len(targets)):
        raise ValueError(f"similarities {values.shape}: must be ({len(sources)}, {len(targets)})")
    values = np.where(np.equal.outer(sources, targets), np.float32(0), values).clip(0, 1)
    width = min(most, len(targets))
    order = np.argsort(hash64(targets), kind="stable")
    best = order[np.argsort(-values[:, order], axis=1, kind="stable")[:, :width]]
    kept = np.take_along_axis(values, best, axis=1)
    places = np.where(kept > 0, best, -1).astype(np.int32)
    return DomainLinks(sources, targets, places, kept)

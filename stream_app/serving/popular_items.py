"""The most reported items, kept in order of their counts while these rise.

    order   more reports first, equal counts by row

The best `MOST` items are kept; a list that needs more, because a user has nearly all of them, is
shorter. Counts only rise, so an item enters when a report of its own raises it to the count of the
last one kept; nothing else is looked at. Where a row changes hands that is kept, all items are
counted again: such an item has not been reported for long, and there are few of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.models.retrieval.index import RowFilter, walk_ranking
from stream_app.state.known_items import KnownItems

Rows = NDArray[np.int64]
MOST = 4096


class PopularItems:
    """At most `most` rows of `items`, best first; `note` every batch of reports."""

    def __init__(self, items: KnownItems, most: int = MOST) -> None:
        self._items, self._most = items, most
        self._count_all()

    def _count_all(self) -> None:
        reports, most = self._items.reports, self._most
        rows = np.arange(len(reports))
        if len(reports) > most:
            least = np.partition(reports, len(reports) - most)[len(reports) - most]
            above = np.flatnonzero(reports > least)
            equal = np.flatnonzero(reports == least)[: most - len(above)]
            rows = np.concatenate((above, equal))
        self._kept = np.zeros(0, np.bool_)
        self._rows: Rows = np.empty(0, np.int64)
        self._new: list[Rows] = [rows]
        self._news, self._least, self._cut = len(rows), 0, -1
        self._sort()

    def note(self, rows: Rows) -> None:
        """Take in rows (m,) that were just reported; those below 0 are passed over."""
        rows = rows[rows >= 0]
        rows = rows[self._items.reports[rows] >= self._least]
        rows = rows[~self._is_kept(rows)]
        if len(rows):
            self._new.append(rows)
            self._news += len(rows)
            if self._news > self._most:
                self._sort()

    def replaced(self, rows: Rows) -> None:
        """Take in rows (m,) that have another item now."""
        if self._is_kept(rows).any():
            self._count_all()
        else:
            self.note(rows)

    def best(self, count: int, keep: RowFilter, cut: int) -> Rows:
        """Return the best `count` rows that `keep` lets through, in the order of when `cut` was
        first asked for."""
        if cut != self._cut or self._news:
            self._sort()
            self._cut = cut
        places, _ = walk_ranking(self._rows, 0, count, keep)
        return self._rows[places]

    @property
    def memory_bytes(self) -> int:
        """Bytes held."""
        return self._kept.nbytes + self._rows.nbytes + sum(rows.nbytes for rows in self._new)

    def _is_kept(self, rows: Rows) -> NDArray[np.bool_]:
        """Return which rows (m,) are kept."""
        if len(self._kept) < len(self._items):
            grown = np.zeros(max(len(self._items), 2 * len(self._kept)), np.bool_)
            grown[: len(self._kept)] = self._kept
            self._kept = grown
        kept: NDArray[np.bool_] = self._kept[rows]
        return kept

    def _sort(self) -> None:
        new = np.unique(np.concatenate(self._new)) if self._news else self._rows[:0]
        rows = np.concatenate((self._rows, new))
        counts = self._items.reports[rows]
        order = np.lexsort((rows, -counts))[: self._most]
        kept = rows[order]
        self._is_kept(kept)  # makes room
        self._kept[self._rows] = False
        self._kept[kept] = True
        self._rows = kept
        full = len(self._rows) == self._most
        self._least = int(counts[order[-1]]) if full else 0
        self._new, self._news = [], 0

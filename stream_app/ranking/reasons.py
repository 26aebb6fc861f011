"""Which items of a history speak for an item of a list, and how much.

    added_kj = sum over the components c of  (w_c + v_c log(1 + n) / 4)  part_ckj

part_ckj is what item k of the history adds to component c of item j: x_k B_kj to `links`, and with
the weights of the visit or the place to those; to the root of a sum, `within` and `between`, its
share of the sum times the root (`scores.py`). What does not depend on the history, as popularity,
has no reason.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.ranking.histories import History
from stream_app.ranking.item_side import ItemSide
from stream_app.ranking.scores import Components, at_length, weights_of


class Reasons(NamedTuple):
    """What items of a history add to the scores of listed items, (m, t), and their slots (m,)."""

    added: NDArray[np.float32]
    slots: NDArray[np.intp]

    def strongest(self, most: int) -> list[list[int]]:
        """Return for each listed item the slots of at most `most` items of the history that add
        to its score, the strongest first; equal ones in the order of the history."""
        order = np.argsort(-self.added, axis=0, kind="stable")[:most]
        return [
            [int(self.slots[row]) for row in rows if self.added[row, column] > 0]
            for column, rows in enumerate(order.T)
        ]

    def first(self) -> NDArray[np.int64]:
        """Return for each listed item (t,) the slot of the item that adds most, -1 where none adds
        anything."""
        if not self.added.size:
            return np.full(self.added.shape[1], -1, np.int64)
        rows = self.added.argmax(axis=0)
        most = self.added[rows, np.arange(len(rows))]
        return np.where(most > 0, self.slots[rows], -1).astype(np.int64)


def reasons_of(
    side: ItemSide, history: History, listed: NDArray[np.intp], *, now: bool = False
) -> Reasons:
    """Return what each item of a history adds to the scores of the slots `listed` (t,)."""
    used = Components(*at_length(weights_of(side, now=now), len(history.slots)))
    width = len(listed) + 1  # the last column takes what is not listed
    places = np.full(len(side), len(listed))
    places[listed] = np.arange(len(listed))
    x, visit, recent = history.weights, history.last_visit, history.recent
    linked = (used.links + used.visit * visit + used.place * recent) * x
    slots = history.slots
    total = linked[:, None] * _entries(
        places[side.link_targets[slots]], side.link_weights[slots], width
    )
    for weight, counts, targets, weights in (
        (used.within, recent, side.within_targets, side.within_weights),
        (used.between, visit, side.between_targets, side.between_weights),
    ):
        if weight and targets.shape[1]:
            parts = counts[:, None] * _entries(places[targets[slots]], weights[slots], width)
            root = np.sqrt(parts.sum(axis=0))
            total += weight * np.divide(parts, root, out=np.zeros_like(parts), where=root > 0)
    return Reasons(total, slots)


def _entries(
    columns: NDArray[np.intp], weights: NDArray[np.float32], width: int
) -> NDArray[np.float32]:
    """Return the entries of rows (m, k) of a pruned table by column (m, width - 1)."""
    rows = len(columns)
    cells = columns + (np.arange(rows) * width)[:, None]
    found = np.bincount(cells.ravel(), weights.ravel(), minlength=rows * width)
    return found.reshape(rows, width)[:, :-1].astype(np.float32)

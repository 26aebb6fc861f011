"""Which items of a history speak for an item of a list, and how much.

    added_kj = sum over the components c of  w_c / spread_c  part_ckj

part_ckj is what item k of the history adds to component c of item j: x_k B[k, j] to `ease`,
a_k O[k, j] to `ordered`, x_k (W_j . P W_k / D_k) to `low_rank` (`scores.py`). A blend is of
standardised components, hence the spreads (standard deviations over the head). What does not depend
on the history, as popularity, has no reason.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.ranking.histories import History
from stream_app.ranking.item_side import ItemSide
from stream_app.ranking.scores import Components, Weights

ALONE = {"ease": Weights(0, 1, 0, 0, 0), "low_rank": Weights(0, 0, 1, 0, 0)}
"""Methods that are one component of the blend, as its weights."""


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
    side: ItemSide,
    history: History,
    taste_rows: NDArray[np.floating],
    components: Components,
    weights: Weights,
    listed: NDArray[np.intp],
) -> Reasons:
    """Return what each item of a history adds to the scores of the slots `listed` (t,).

    taste_rows (m, r): what each item adds to the taste vector for a weight of 1. components: the
    scores of every item of the head for this history.
    """
    x, follows = history.recency_weights(), history.following_weights()
    places = np.full(len(side), len(listed))
    places[listed] = np.arange(len(listed))
    total = np.zeros((len(x), len(listed)), np.float32)
    for weight, scores, counted, part in (
        (weights.ease, components.ease, x, (side.link_targets, side.link_weights)),
        (weights.ordered, components.ordered, follows, (side.next_targets, side.next_weights)),
    ):
        spread = float(scores.std(dtype=np.float64)) if len(scores) else 0.0
        if weight and spread > 0:
            factor = np.float32(weight / spread) * counted
            _add_entries(total, part[0][history.slots], part[1][history.slots], factor, places)
    spread = float(components.low_rank.std(dtype=np.float64)) if len(side) else 0.0
    if weights.low_rank and spread > 0:
        parts = (taste_rows @ side.factors[listed].T).astype(np.float32)
        total += np.float32(weights.low_rank / spread) * x[:, None] * parts
    return Reasons(total, history.slots)


def _add_entries(
    total: NDArray[np.float32],
    targets: NDArray[np.uint16],
    weights: NDArray[np.float32],
    factor: NDArray[np.float32],
    places: NDArray[np.intp],
) -> None:
    """Add the entries of rows (m, k) of a pruned table that lie in the listed columns; `places`
    (n,) is the column of each slot, t for one that is not listed."""
    rows, width = total.shape
    # One cell more for each row takes what is not listed.
    cells = places[targets] + (np.arange(rows) * (width + 1))[:, None]
    added = np.bincount(cells.ravel(), weights.ravel(), minlength=rows * (width + 1))
    total += factor[:, None] * added.reshape(rows, width + 1)[:, :width].astype(np.float32)

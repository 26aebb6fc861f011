"""The layers of two domains, and the links between adjacent layers that paths go along.

    BB   bridge items: a person rated one and an item of the other domain
    NB   no bridge, but linked to a BB of the same domain
    NN   linked to neither

A meta path takes at most one item of a layer (Guerraoui et al. 2017, section 4.2):

    source domain                     target domain
    NN -> NB -> BB ------------------> BB -> NB -> NN

It begins at its item's layer and may end in each layer of the target domain. Of every item the k
links with the largest similarity into the next layer are kept.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from research.xmap.adjusted_cosine import (
    RatedCells,
    adjusted_cosine,
    damped_cosine,
    significance,
)

Numbers = NDArray[np.int64]


class Layer(IntEnum):
    """How far an item is from the other domain, in links."""

    BB = 0
    NB = 1
    NN = 2


class Damping(NamedTuple):
    """beta and B of the damped similarity."""

    beta: float
    clip: float


class Edges(NamedTuple):
    """Links of n items into one layer (n, k): targets, -1 for none; similarities; S; F."""

    targets: Numbers
    similarities: NDArray[np.float64]
    agreeing: NDArray[np.float64]
    certainties: NDArray[np.float64]


class Links(NamedTuple):
    """Similarity, S and F of items to items, (n, m) each; `linked`: a user rated both."""

    similarities: NDArray[np.float64]
    agreeing: NDArray[np.float64]
    certainties: NDArray[np.float64]
    linked: NDArray[np.bool_]


def links_between(rows: RatedCells, columns: RatedCells, damping: Damping | None = None) -> Links:
    """Return how all items of two sets are linked; plain adjusted cosine without `damping`."""
    found = (
        adjusted_cosine(rows, columns)
        if damping is None
        else damped_cosine(rows, columns, *damping)
    )
    agreeing, certainties = significance(rows, columns)
    linked = rows.present.astype(np.float32).T @ columns.present.astype(np.float32) > 0
    return Links(found, agreeing, certainties, linked)


def layers(across: NDArray[np.bool_], within: NDArray[np.bool_]) -> NDArray[np.int8]:
    """Return (n,) the `Layer` of each item of a domain.

    across (n, m): whether an item is linked to an item of the other domain; within (n, n): to one
    of its own. Without a bridge every item is NN.
    """
    bridge = across.any(axis=1)
    near = within[:, bridge].any(axis=1)
    return np.where(bridge, Layer.BB, np.where(near, Layer.NB, Layer.NN)).astype(np.int8)


def strongest_edges(
    links: Links, rows: NDArray[np.bool_], columns: NDArray[np.bool_], most: int
) -> Edges:
    """Return the `most` strongest links of each row (n,) into the chosen columns (m,); rows that
    are not chosen have none. Equal ones stand in the order of the columns."""
    if most < 1:
        raise ValueError(f"links of an item: {most}, must be 1 or more")
    allowed = links.linked & rows[:, None] & columns[None, :]
    ranked = np.where(allowed, links.similarities, -np.inf)
    width = min(most, links.linked.shape[1])
    best = np.argsort(-ranked, axis=1, kind="stable")[:, :width]
    kept = np.take_along_axis(allowed, best, axis=1)
    tables = (links.similarities, links.agreeing, links.certainties)
    values = (np.where(kept, np.take_along_axis(table, best, axis=1), 0) for table in tables)
    return Edges(np.where(kept, best, -1), *values)

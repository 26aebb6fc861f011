"""X-SIM: how alike items of two domains are, over all meta paths between them.

    BB   bridge items: a person rated one and an item of the other domain
    NB   no bridge, but linked to a BB of the same domain
    NN   linked to neither

A meta path takes at most one item of a layer (Guerraoui et al. 2017, section 4.2):

    source domain                     target domain
    NN -> NB -> BB ------------------> BB -> NB -> NN

It begins at its item's layer and may end in each layer of the target domain. Of every item the k
links with the largest similarity into the next layer are kept.

    s_p = sum_e S_e s_e / sum_e S_e       path similarity, e its links, S people who agree
    c_p = prod_e F_e                      path certainty, F = S / people who rated either
    X-SIM(i, j) = sum_p c_p s_p / sum_p c_p,      in -1 .. 1; 0 without a path of certainty

(Section 4.3.) The layers and the kept links depend on everybody's ratings, so one person may change
any X-SIM by up to 2, the width of its range: that is its sensitivity.
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

SENSITIVITY = 2.0  # of X-SIM, global
LINKS = 10
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


class Paths(NamedTuple):
    """P paths: where each ends; sum S; sum S s; prod F, (P,) each."""

    ends: NDArray[np.int64]
    agreeing: NDArray[np.float64]
    weighted: NDArray[np.float64]
    certainties: NDArray[np.float64]

    def along(self, edges: Edges) -> Paths:
        """Return every path with one link more."""
        targets = edges.targets[self.ends]
        kept = targets >= 0
        s, S, F = (table[self.ends][kept] for table in edges[1:])
        numbers = (self.agreeing, self.weighted, self.certainties)
        agreeing, weighted, certainties = (np.repeat(each, kept.sum(axis=1)) for each in numbers)
        return Paths(targets[kept], agreeing + S, weighted + S * s, certainties * F)


class Hops(NamedTuple):
    """The kept links from layer to layer: to the bridge, over it, and away from it."""

    to_near: Edges  # NN -> NB of the source domain
    to_bridge: Edges  # NB -> BB
    over: Edges  # BB -> BB of the target domain
    from_bridge: Edges  # BB -> NB of the target domain
    from_near: Edges  # NB -> NN


def x_sim(
    source: RatedCells, target: RatedCells, most: int = LINKS, damping: Damping | None = None
) -> NDArray[np.float64]:
    """Return X-SIM (n, m) of the items of two domains, rated by the same people (rows).

    most: links that an item keeps into the next layer; an item of NN has most^5 paths. damping:
    links by the damped similarity instead of the plain one.

    Raises:
        ValueError: the tables have different people, or `most` is below 1.
    """
    if len(source.present) != len(target.present):
        raise ValueError(
            f"{len(source.present)} and {len(target.present)} people: both domains need one row a "
            "person"
        )
    across = links_between(source, target, damping)
    own, other = (links_between(each, each, damping) for each in (source, target))
    near = layers(across.linked, own.linked), layers(across.linked.T, other.linked)
    hops = _hops(across, own, other, near, most)
    items, targets = source.present.shape[1], target.present.shape[1]
    found = np.zeros((items, targets))
    for item, layer in enumerate(near[0].tolist()):
        found[item] = _row(hops, item, layer, targets)
    return found


def _hops(
    across: Links,
    own: Links,
    other: Links,
    near: tuple[NDArray[np.int8], NDArray[np.int8]],
    most: int,
) -> Hops:
    from_layer, to_layer = ([each == layer for layer in Layer] for each in near)
    bridge, close, far = from_layer
    bridge_too, close_too, far_too = to_layer
    return Hops(
        to_near=strongest_edges(own, far, close, most),
        to_bridge=strongest_edges(own, close, bridge, most),
        over=strongest_edges(across, bridge, bridge_too, most),
        from_bridge=strongest_edges(other, bridge_too, close_too, most),
        from_near=strongest_edges(other, close_too, far_too, most),
    )


def _row(hops: Hops, item: int, layer: int, targets: int) -> NDArray[np.float64]:
    """Return X-SIM (m,) of one item: the sum over the paths that end in each layer."""
    paths = Paths(np.array([item]), np.zeros(1), np.zeros(1), np.ones(1))
    toward = {Layer.NN: (hops.to_near, hops.to_bridge), Layer.NB: (hops.to_bridge,), Layer.BB: ()}
    for edges in toward[Layer(layer)]:
        paths = paths.along(edges)
    total, weight = np.zeros(targets), np.zeros(targets)
    for edges in (hops.over, hops.from_bridge, hops.from_near):
        paths = paths.along(edges)
        mean = np.divide(
            paths.weighted,
            paths.agreeing,
            out=np.zeros(len(paths.ends)),
            where=paths.agreeing > 0,
        )
        total += np.bincount(paths.ends, paths.certainties * mean, minlength=targets)
        weight += np.bincount(paths.ends, paths.certainties, minlength=targets)
    return np.divide(total, weight, out=np.zeros(targets), where=weight > 0).clip(-1, 1)

"""X-SIM: how alike items of two domains are, over all meta paths between them.

    s_p = sum_e S_e s_e / sum_e S_e       path similarity, e its links, S people who agree
    c_p = prod_e F_e                      path certainty, F = S / people who rated either
    X-SIM(i, j) = sum_p c_p s_p / sum_p c_p,      in -1 .. 1; 0 without a path of certainty

(Guerraoui et al. 2017, section 4.3.) The layers and the kept links depend on everybody's ratings,
so one person may change any X-SIM by up to 2, the width of its range: that is its sensitivity.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from research.xmap.adjusted_cosine import RatedCells
from research.xmap.layers import (
    Damping,
    Edges,
    Layer,
    Links,
    layers,
    links_between,
    strongest_edges,
)

SENSITIVITY = 2.0  # of X-SIM, global
LINKS = 10


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

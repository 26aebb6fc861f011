"""A profile in a domain that a user has never rated: an AlterEgo (Guerraoui et al. 2017).

    t(j)   the replacement of the rated source item j: the target item that is most like it, or
           each of the `spread` items that are
    r(t)   = middle_t + (r_j - middle_j), where the middles are public; else r_j

Several rated items may have the same replacement: its rating is then their mean, weighted by the
similarities. Items without a link have no replacement and are left out. Where the profile leaves
the device, replacements are drawn (`replacement.py`) and given as `replacements`.

Ratings in the target domain are predicted from the profile by links within the domain:

    predicted  r(t) = middle_t + offset + sum_j s_jt (d_j - offset) / (sum_j |s_jt| + shrink)
               d_j  = r_j - middle_j,   offset = sum_j d_j / (c + prior)

j runs over the c items of the profile. The item-based prediction of Guerraoui et al. 2017 (section
4.4) has offset 0 and shrink 0; a profile that is itself a guess says more about how a person rates
than about single items, so deviations are drawn to the person's own offset. Where the rated items
are at hand, `offset_of` is that of all of them, which is the better one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.ranking.scores import hash64

LOWEST, HIGHEST = 1.0, 5.0  # stars
PRIOR = 3.0
SHRINK = 1.0


class TargetLinks(NamedTuple):
    """The strongest links of n sources to m targets, at most k a row, the strongest first.

    places (n, k): of targets, -1 where the row has fewer links. similarities (n, k): 0 there.
    targets: m.
    """

    places: NDArray[np.int64]
    similarities: NDArray[np.float64]
    targets: int

    def dense(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return (h, m) similarities of some rows to every target, 0 where no link is kept."""
        found = np.zeros((len(rows), self.targets + 1))  # the last column takes what is no link
        np.put_along_axis(found, self.places[rows], self.similarities[rows], axis=1)
        return found[:, : self.targets]


def strongest(
    similarities: NDArray[np.floating], most: int, first: int, *, within: bool = False
) -> TargetLinks:
    """Return the `most` links of each row that are above 0; similarities (n, m), NaN is no link.

    first: number of the first target among the items of both domains; equal links stand in the
    order of a hash of these numbers, so that no item gains by its own. within: sources are the
    targets themselves, and none has a link to itself.

    >>> strongest(np.array([[0.0, 0.5]]), 2, first=1).places.tolist()
    [[1, -1]]
    """
    values = np.nan_to_num(np.asarray(similarities, np.float32), nan=0.0).clip(0, 1)
    if within:
        np.fill_diagonal(values, 0)
    targets = values.shape[1]
    order = np.argsort(hash64(np.arange(first, first + targets, dtype=np.uint64)), kind="stable")
    best = order[np.argsort(-values[:, order], axis=1, kind="stable")[:, :most]]
    kept = np.take_along_axis(values, best, axis=1)
    return TargetLinks(np.where(kept > 0, best, -1), kept.astype(np.float64), targets)


class AlterEgo(NamedTuple):
    """c items of the target domain, each once, in the order of their first source.

    places (c,): of targets. ratings (c,): stars; carried from middle to middle they may lie beyond
    1 .. 5, since clipping them here would cost accuracy (MAE .7359 instead of .7341, books to
    movies of the Amazon subset). weights (c,): the sum of the similarities of the items that each
    stands for; 1 for each item where replacements are drawn.
    """

    places: NDArray[np.int64]
    ratings: NDArray[np.float64]
    weights: NDArray[np.float64]


class Middles(NamedTuple):
    """The public mean rating of each source item (n,) and of each target item (m,), in stars."""

    sources: NDArray[np.floating]
    targets: NDArray[np.floating]


def alter_ego(
    rows: NDArray[np.int64],
    stars: NDArray[np.float64],
    links: TargetLinks,
    middles: Middles | None = None,
    spread: int = 1,
) -> AlterEgo:
    """Return the profile in the target domain of a history of sources, rows (h,) with stars (h,);
    spread: how many replacements an item has."""
    places = links.places[rows, :spread]
    weights = links.similarities[rows, :spread]
    each = places.shape[1]
    history = np.repeat(rows, each), np.repeat(stars, each)
    return carried(*history, places.reshape(-1), weights.reshape(-1), middles)


def carried(
    rows: NDArray[np.int64],
    stars: NDArray[np.float64],
    places: NDArray[np.int64],
    weights: NDArray[np.float64],
    middles: Middles | None = None,
) -> AlterEgo:
    """Return the profile in which each row (h,) has its replacement, a target or -1, with a weight;
    a replacement that is drawn has weight 1."""
    kept = places >= 0
    places, weights, ratings = places[kept], weights[kept], stars[kept]
    if middles is not None:
        ratings = middles.targets[places] + ratings - middles.sources[rows[kept]]
    _, first, group = np.unique(places, return_index=True, return_inverse=True)
    order = np.argsort(np.argsort(first, kind="stable"), kind="stable")
    group = order[group.reshape(-1)]
    total = np.bincount(group, weights, minlength=len(first)).astype(np.float64)
    mean = np.bincount(group, weights * ratings, minlength=len(first)) / total
    return AlterEgo(places[np.sort(first)], mean, total)


def predicted(
    ego: AlterEgo,
    similarities: NDArray[np.floating],
    middles: NDArray[np.floating],
    shrink: float = SHRINK,
    prior: float = PRIOR,
    offset: float | None = None,
) -> NDArray[np.float64]:
    """Return (m,) the rating to expect of every target item, in stars, 1 .. 5.

    similarities (c, m): of each item of the profile to every target, such as `TargetLinks.dense`
    of links within the target domain. middles (m,): public mean ratings. An empty profile, and an
    item without a link, is predicted by its mean and the person's offset; never NaN. offset: in
    stars, instead of that of the profile.
    """
    deviations = ego.ratings - middles[ego.places]
    if offset is None:
        offset = offset_of(ego.ratings, middles[ego.places], prior)
    kept = np.array(similarities, np.float64)
    kept[np.arange(len(kept)), ego.places] = 0  # an item says of itself what the offset says
    total = (deviations - offset) @ kept
    weight = np.abs(kept).sum(axis=0) + shrink
    personal = np.divide(total, weight, out=np.zeros(len(total)), where=weight > 0)
    return np.asarray((middles + offset + personal).clip(LOWEST, HIGHEST))


def offset_of(
    ratings: NDArray[np.floating], middles: NDArray[np.floating], prior: float = PRIOR
) -> float:
    """Return how far ratings (c,) are from the means of their items (c,), drawn to 0, in stars."""
    if not len(ratings):
        return 0.0
    return float((ratings - middles).sum() / (len(ratings) + prior))

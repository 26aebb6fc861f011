"""A profile in a domain that a user has never rated: an AlterEgo (Guerraoui et al. 2017).

    t(j)   the replacement of the rated source item j: the target item that is most like it, or
           each of the `spread` items that are
    r(t)   = middle_t + (r_j - middle_j), where the middles are public; else r_j

Several rated items may have the same replacement: its rating is then their mean, weighted by the
similarities. Items without a link have no replacement and are left out.

Made on the device from a public table, an AlterEgo reveals nothing: it needs no noise. Where
it leaves the device, the replacements are drawn instead (`research/xmap/replacement.py`) and
given as `replacements`.

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
from numpy.typing import ArrayLike, NDArray

from stream_app.ranking.domains.links import DomainLinks

LOWEST, HIGHEST = 1.0, 5.0  # stars
PRIOR = 3.0
SHRINK = 1.0


class AlterEgo(NamedTuple):
    """c items of the target domain, each once, in the order of their first source.

    items (c,): keys. places (c,): places of `DomainLinks.targets`. ratings (c,): stars;
    carried from middle to middle they may lie beyond 1 .. 5, since clipping them here would cost
    accuracy (MAE .7359 instead of .7341, books to movies of the Amazon subset).
    weights (c,): the sum of the similarities of the items that each stands for; 1 for each item
    where replacements are drawn. because (c,): the key of the rated item that counts most in each.
    """

    items: NDArray[np.uint64]
    places: NDArray[np.int64]
    ratings: NDArray[np.float64]
    weights: NDArray[np.float64]
    because: NDArray[np.uint64]


class Middles(NamedTuple):
    """The public mean rating of each source item (n,) and of each target item (m,), in stars."""

    sources: NDArray[np.floating]
    targets: NDArray[np.floating]


def alter_ego(
    items: ArrayLike,
    ratings: ArrayLike,
    links: DomainLinks,
    middles: Middles | None = None,
    replacements: ArrayLike | None = None,
    spread: int = 1,
) -> AlterEgo:
    """Return the profile in the target domain of a history in the source domain.

    items (h,): keys of rated items; those that are no sources are left out, and two ratings of one
    item both count. ratings (h,): stars. replacements (h,): places of `links.targets` taken
    instead of the most similar ones, -1 for none; they may be drawn, and have no similarity then.
    spread: how many replacements an item has where none are given.

    Raises:
        ValueError: lengths differ, a rating is not finite, or a replacement is no target.
    """
    keys = np.asarray(items, np.uint64).reshape(-1)
    stars = np.asarray(ratings, np.float64).reshape(-1)
    if len(keys) != len(stars):
        raise ValueError(f"{len(keys)} items with {len(stars)} ratings: must be equally many")
    if not np.isfinite(stars).all():
        raise ValueError("ratings of a history must be finite stars")
    if spread < 1:
        raise ValueError(f"{spread} replacements of an item: must be 1 or more")
    rows = links.rows(keys)
    if replacements is None:
        places, weights = most_similar(rows, links, spread)
        each = places.shape[1]
        places, weights = places.reshape(-1), weights.reshape(-1)
        rows, keys, stars = np.repeat(rows, each), np.repeat(keys, each), np.repeat(stars, each)
    else:
        places, weights = _given(replacements, rows, links)
    kept = np.flatnonzero((places >= 0) & (rows >= 0))
    places, weights, carried = places[kept], weights[kept], stars[kept]
    if middles is not None:
        carried = middles.targets[places] + carried - middles.sources[rows[kept]]
    return _joined(links, places, weights, carried, keys[kept])


def most_similar(
    rows: NDArray[np.int64], links: DomainLinks, spread: int = 1
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the places of the most similar targets of each row (h, spread or fewer), and their
    similarities; -1 and 0 where a row has fewer links, and for a row of -1."""
    width = min(spread, links.places.shape[1])
    if not len(links):
        return np.full((len(rows), width), -1, np.int64), np.zeros((len(rows), width))
    known = (rows >= 0)[:, None]
    places = np.where(known, links.places[rows, :width], -1).astype(np.int64)
    weights = np.where(places >= 0, links.similarities[rows, :width], 0.0).astype(np.float64)
    return np.where(weights > 0, places, -1), weights.clip(0, None)


def _given(
    replacements: ArrayLike, rows: NDArray[np.int64], links: DomainLinks
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    places = np.asarray(replacements, np.int64).reshape(-1)
    if len(places) != len(rows):
        raise ValueError(f"{len(places)} replacements of {len(rows)} items: must be equally many")
    if len(places) and not -1 <= places.min() <= places.max() < links.size:
        raise ValueError(f"replacements: must be places of {links.size} targets, or -1")
    return places, np.ones(len(places))


def _joined(
    links: DomainLinks,
    places: NDArray[np.int64],
    weights: NDArray[np.float64],
    ratings: NDArray[np.float64],
    keys: NDArray[np.uint64],
) -> AlterEgo:
    """Return one entry for each replacement, in the order in which they first occur."""
    _, first, group = np.unique(places, return_index=True, return_inverse=True)
    order = np.argsort(np.argsort(first, kind="stable"), kind="stable")
    group = order[group.reshape(-1)]
    total = np.bincount(group, weights, minlength=len(first)).astype(np.float64)
    mean = np.bincount(group, weights * ratings, minlength=len(first)) / total
    strongest = np.zeros(len(first), np.int64)
    # Written from the weakest to the strongest, the earliest of equals last: it stays.
    for at in np.argsort(-weights, kind="stable")[::-1]:
        strongest[group[at]] = at
    once = np.sort(first)
    return AlterEgo(links.targets[places[once]], places[once], mean, total, keys[strongest])


def predicted(
    ego: AlterEgo,
    similarities: NDArray[np.floating],
    middles: NDArray[np.floating],
    shrink: float = SHRINK,
    prior: float = PRIOR,
    offset: float | None = None,
) -> NDArray[np.float64]:
    """Return (m,) the rating to expect of every target item, in stars, 1 .. 5.

    similarities (c, m): of each item of the profile to every target, such as
    `DomainLinks.dense(links.rows(ego.items))` of links within the target domain. middles (m,):
    public mean ratings. An empty profile, and an item without a link, is predicted by its mean and
    the person's offset; never NaN. offset: in stars, instead of that of the profile.
    """
    _check(ego, similarities, middles)
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


def _check(
    ego: AlterEgo, similarities: NDArray[np.floating], middles: NDArray[np.floating]
) -> None:
    if similarities.shape != (len(ego.items), len(middles)):
        raise ValueError(
            f"similarities {similarities.shape}: must be ({len(ego.items)}, {len(middles)}), "
            "profile by targets"
        )

"""Ratings and scores of a target domain from a profile in it, by how items go together.

    predicted  r(t) = middle_t + offset + sum_j s_jt (d_j - offset) / (sum_j |s_jt| + shrink)
               d_j  = r_j - middle_j,   offset = sum_j d_j / (c + prior)
    score      f(t) = sum_j s_jt r_j,  and the mean rating where no j is linked to t

j runs over the c items of the profile. The item-based prediction of Guerraoui et al. 2017 (section
4.4) has offset 0 and shrink 0; a profile that is itself a guess says more about how a person rates
than about single items, so deviations are drawn to the person's own offset. Where the rated items
are at hand, `offset_of` is that of all of them, which is the better one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.ranking.domains.alter_ego import HIGHEST, LOWEST, AlterEgo

PRIOR = 3.0
SHRINK = 1.0


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


def scores(
    ego: AlterEgo, similarities: NDArray[np.floating], middles: NDArray[np.floating]
) -> NDArray[np.float64]:
    """Return (m,) how well every target item goes with the profile; items without a link come after
    all linked ones, by their mean rating."""
    _check(ego, similarities, middles)
    found = (ego.ratings * ego.weights) @ np.asarray(similarities, np.float64)
    least = found.min(initial=0.0)
    linked = (np.asarray(similarities) != 0).any(axis=0)
    return np.where(linked, found, least - 1 - HIGHEST + middles)


def _check(
    ego: AlterEgo, similarities: NDArray[np.floating], middles: NDArray[np.floating]
) -> None:
    if similarities.shape != (len(ego.items), len(middles)):
        raise ValueError(
            f"similarities {similarities.shape}: must be ({len(ego.items)}, {len(middles)}), "
            "profile by targets"
        )

"""Scores of a campaign's items for one person: links from noisy sums, and a prior beside them.

    score_j = sum_i x_i B_ij + m P_j,   m = max(4, 60 / directions)
    x_i     (.2 + .8 exp(-age / 5)) (1 + .4 (stars - 4.5)) for a like, its age in likes;  0 else
    B       the links of *together* (`together.py`);  0 for items that it is not over, and where
            fewer than three directions of taste are above the noise
    P       the share of the person by popularity, genres and years (`shares`)

Both terms are in likes, and nothing is standardised for a person or a list. The prior counts as m
likes: it decides where little is liked, and the links as they grow with the history. Where few
directions are above the noise, much of what they link is noise, and m is larger. The popularity is
the order of the scope.

*Prior*: how a person's likes fall on the items, from public facts and the own likes alone.

    p_j   ~ 1 / (r_j + 50), the public share of item j, r_j its place by popularity, from 0
          (Zipf and Mandelbrot's law)
    f_j   public features of item j, of unit covariance (`features.py`);  f = sum_j p_j f_j
    b     = sum_i x_i (f_i - f) / (sum_i x_i + 20), the taste of a person with likes x
    P_j   ~ p_j exp(f_j . b), the share of the person;  each of p and P adds up to 1

b is the first Newton step, from 0, of the regression of the likes on the features by a softmax with
offset log p and a ridge of 20 likes (Hastie, Tibshirani and Friedman 2009, section 4.4.1). Without
likes, or without features, P = p. The likes stay on the device and features are facts about the
items: beyond what made the order of popularity public, a prior costs no budget.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.campaigns.public_side import PublicSide
from stream_app.campaigns.rated_items import RatedItems
from stream_app.campaigns.together import TogetherSide, links, recency_weights

LEAST_PRIOR, PRIOR_LIKES = 4.0, 60.0  # likes
STARS_SLOPE, USUAL_STARS = 0.4, 4.5

Floats = NDArray[np.float64]


class ItemScores:
    """Scores for any person, from a public side and public features (n, m) of the items of its
    scope. Raises ValueError for features of another number of items."""

    def __init__(self, side: PublicSide, features: Floats | None = None) -> None:
        items = len(side.scope)
        self._features = np.zeros((items, 0)) if features is None else features
        if len(self._features) != items:
            raise ValueError(f"features of {len(self._features)} items instead of {items}")
        self._public = public_shares(items)
        found = side.together
        self.together: TogetherSide | None = None if found is None or found.is_popular else found

    @property
    def has_features(self) -> bool:
        """Whether the features tell any two items apart."""
        return bool(self._features.any())

    def of_person(self, rated: RatedItems, *, by_recency: bool = True) -> Floats:
        """Return the score of every item (n,); without a like they are in order of popularity."""
        x = self.likes(rated, by_recency=by_recency)
        scores = shares(self._public, self._features, x)
        if self.together is not None:
            first, directions = self.together.vectors.shape
            scores *= max(LEAST_PRIOR, PRIOR_LIKES / directions)
            scores[:first] += links(self.together, x[:first])
        return scores

    def likes(self, rated: RatedItems, *, by_recency: bool = True) -> Floats:
        """Return x (n,); without recency it depends on the stars alone."""
        x = np.zeros(len(self._public))
        places, stars = rated.places[rated.liked], rated.stars[rated.liked]
        x[places] = np.maximum(1 + STARS_SLOPE * (stars - USUAL_STARS), 0)
        if by_recency:
            x[places] *= recency_weights(len(places))
        return x


SPREAD = 50.0  # places
RIDGE = 20.0  # likes


def public_shares(items: int) -> Floats:
    """Return p (n,) of so many items, in the order of their popularity."""
    found = 1 / (np.arange(items) + SPREAD)
    return np.asarray(found / found.sum())


def shares(public: Floats, features: Floats, x: Floats) -> Floats:
    """Return P (n,) of a person with likes x (n,), over features (n, m)."""
    centred = features - public @ features
    log_odds = centred @ (x @ centred / (x.sum() + RIDGE))
    found = public * np.exp(log_odds - log_odds.max())
    return np.asarray(found / found.sum())

"""Scores of the head items for one history, and their blend.

    ease      x B                                      links between items
    low_rank  m + W z,  z = (W' D^-1 W + I)^-1 W' D^-1 (x - m)       posterior mean of the taste
    ordered   a O,  a = exp(-age / 5)                  what tends to follow
    popular   share of devices that have the item
    stars     predicted rating

x holds the weights of the history, recent items counting more where the order is known. The
low-rank score is an inner product of (1, z) with (m_i, W_i), so an index for inner products finds
its largest without scoring every item.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.ranking.histories import History
from stream_app.ranking.item_side import ItemSide
from stream_app.ranking.pair_counts import report_variance

LEAST_SHARE = 1e-6
_PRIORS = 0.001, 0.999


class Components(NamedTuple):
    """Scores (n,) of every head item; `stars` may be replaced by personal predictions."""

    popular: NDArray[np.float32]
    ease: NDArray[np.float32]
    low_rank: NDArray[np.float32]
    ordered: NDArray[np.float32]
    stars: NDArray[np.float32]


class Weights(NamedTuple):
    """How much each standardised component counts in the blend, before any is fitted.

    On splits inside the training part (ML-1M / ML-100K, rr at epsilon 1) links alone give a device
    nDCG@10 .165 / .189, what follows alone .185 / .181, both .197 / .204. Popularity and stars add
    nothing to them. Factors help where reports are few and noisy (likes of ML-1M at epsilon 1/2).
    """

    popular: float = 0.0
    ease: float = 1.0
    low_rank: float = 0.1
    ordered: float = 1.0
    stars: float = 0.0


def component_scores(
    side: ItemSide, history: History, taste: NDArray[np.float32] | None = None
) -> Components:
    """Return the scores of every head item for a clean history; an empty one leaves popularity.
    `taste` (r,): the taste vector where the caller has it already."""
    x = history.recency_weights()
    if taste is None:
        taste = taste_vector(side, history)
    return Components(
        popular=side.popularity,
        ease=_row_sums(side.link_targets, side.link_weights, history.slots, x),
        low_rank=side.rates + side.factors @ taste,
        ordered=_row_sums(
            side.next_targets, side.next_weights, history.slots, history.following_weights()
        ),
        stars=side.ratings,
    )


class TasteMap(NamedTuple):
    """What of the posterior mean does not depend on the user: z = start + sum_i x_i rows_i.

    rows (n, r), start (r,).
    """

    rows: NDArray[np.float32]
    start: NDArray[np.float32]

    def taste(self, history: History) -> NDArray[np.float32]:
        """Return z (r,), the posterior mean of the user's taste; zero for an empty history."""
        if not len(history.slots):
            return np.zeros_like(self.start)
        taste: NDArray[np.float32] = self.start + (
            history.recency_weights() @ self.rows[history.slots]
        )
        return taste


def variance(side: ItemSide, channel: tuple[float, float] | None = None) -> NDArray[np.float64]:
    """Return D (n,): the variance of x around the low-rank model, and for a history of reports
    through a `channel` (P(positive | positive), P(positive | not positive)), debiased, that of
    their noise."""
    left = side.noise.astype(np.float64)
    return left if channel is None else left + report_variance(channel)


def taste_map(side: ItemSide, channel: tuple[float, float] | None = None) -> TasteMap:
    """Return the map from histories to taste vectors for one item side; `channel` as in
    `variance`."""
    W = side.factors.astype(np.float64)
    scaled = W / variance(side, channel)[:, None]
    rows = np.linalg.solve(scaled.T @ W + np.eye(W.shape[1]), scaled.T).T
    start = -(side.rates.astype(np.float64) @ rows)
    return TasteMap(rows.astype(np.float32), start.astype(np.float32))


def taste_vector(
    side: ItemSide, history: History, channel: tuple[float, float] | None = None
) -> NDArray[np.float32]:
    """Return z (r,) of one history; for many histories keep the `taste_map`."""
    return taste_map(side, channel).taste(history)


def posterior_likes(
    side: ItemSide,
    taste: NDArray[np.float32],
    positive: NDArray[np.bool_],
    channel: tuple[float, float],
) -> NDArray[np.float32]:
    """Return how probable it is that a user with this taste likes each item (n,), given the noised
    bits `positive` (n,) of all items through `channel`, as in `variance`.

    Links take it in place of the bits: on ML-1M likes at epsilon 1 / 2 / 4 nDCG@10 is .091 / .101 /
    .108, from debiased bits .063 / .093 / .108 (300 items, on a split inside the training part).
    """
    p, q = channel
    prior = np.clip(side.rates + side.factors @ taste, *_PRIORS)
    liked = np.where(positive, p, 1 - p) * prior
    other = np.where(positive, q, 1 - q) * (1 - prior)
    likes: NDArray[np.float32] = (liked / (liked + other)).astype(np.float32)
    return likes


def blend(components: Components, weights: Weights | None = None) -> NDArray[np.float32]:
    """Return the weighted sum (n,) of the standardised components; popularity enters as its
    logarithm, and a component without any spread as nothing."""
    weights = weights or Weights()
    total = np.zeros(len(components.popular), np.float32)
    for weight, scores in zip(weights, standardised(components), strict=True):
        total += np.float32(weight) * scores
    return total


def standardised(components: Components) -> Components:
    """Return the components with mean 0 and variance 1 over the head, constants as zeros."""
    popular = np.log(np.maximum(components.popular, LEAST_SHARE))
    return Components(*(_standard(scores) for scores in (popular, *components[1:])))


def top_slots(
    scores: NDArray[np.float32], k: int, allowed: NDArray[np.bool_] | None = None
) -> NDArray[np.intp]:
    """Return the slots of the k largest scores, best first, equal scores by slot; fewer where
    `allowed` (n,) leaves fewer."""
    slots = np.arange(len(scores)) if allowed is None else np.flatnonzero(allowed)
    found = scores[slots]
    if 0 < k < len(slots):
        least = np.partition(found, len(found) - k)[len(found) - k]
        slots = slots[found >= least]
    order = np.argsort(-scores[slots], kind="stable")[: max(k, 0)]
    return slots[order]


def fallback(popularity: NDArray[np.float32], ratings: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the scores of items outside the head, of whose company nothing is known: popularity
    times predicted rating."""
    return (popularity * ratings).astype(np.float32)


def _row_sums(
    targets: NDArray[np.uint16],
    weights: NDArray[np.float32],
    slots: NDArray[np.intp],
    x: NDArray[np.float32],
) -> NDArray[np.float32]:
    picked = (x[:, None] * weights[slots]).ravel()
    found = np.bincount(targets[slots].ravel(), picked, minlength=len(targets))
    return found.astype(np.float32)


def _standard(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    if not len(scores):
        return scores
    spread = float(scores.std(dtype=np.float64))
    if not spread > 0:
        return np.zeros(len(scores), np.float32)
    return ((scores - np.float32(scores.mean(dtype=np.float64))) / np.float32(spread)).astype(
        np.float32
    )

"""The item side from the pair counts: run it off the learning thread, at most once a second."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.ranking import ease, low_rank
from stream_app.ranking.item_side import ItemSide
from stream_app.ranking.learned_weights import ALONE, Learned, Others, learn
from stream_app.ranking.low_rank import LowRank
from stream_app.ranking.pair_counts import PairCounts, likes_of
from stream_app.ranking.visit_events import (
    FOLLOWS_A_ROW,
    LATELY_PRIOR,
    LIKING_PRIOR,
    VISIT_FOLLOWS_A_ROW,
    VisitSample,
    VisitTables,
    follow_scales,
    following,
    recent_share,
)

MIDDLE = 3.0  # the rating of an item of which nothing is known, on 1 .. 5
LEAST_DEVICES = 2
LEAST_SIGNAL = 0.05  # of the variance of the correlations of noised reports


class Derived(NamedTuple):
    """An item side, the low-rank model of its items, and how good lists by it are: for the next
    visit and for this one."""

    side: ItemSide
    model: LowRank
    next: Learned
    now: Learned

    @property
    def fits(self) -> NDArray[np.float32]:
        """What these devices say of the weights of both lists (2, `FIT_NUMBERS`)."""
        return np.stack((self.next.fit, self.now.fit))


def derive(
    counts: PairCounts,
    ratings: NDArray[np.float32],
    visits: tuple[VisitSample, VisitSample] | None = None,
    previous: Derived | None = None,
    others: Others = ALONE,
) -> Derived:
    """Return the item side of `counts`; `ratings` (n,): predicted rating of the average user, 1 ..
    5. `visits`: samples of devices, of which the weights of the two lists are learned, for the next
    visit and within one, with the fits of `others`. `previous` makes the factors cheaper to find.
    Too few data give empty links and no factors, never NaN: lists are then the popular items."""
    size = len(counts.keys)
    model = low_rank.estimate(counts, low_rank.MOST_FACTORS, _start(counts.keys, previous))
    inverse = None
    # Links of noise make lists that are worse than the popular items. With one bit a cell from 500
    # to 1,500 devices they were worse up to a share of .03 and better from .07 on.
    if counts.channel is not None and low_rank.signal(counts, model.rates) < least_signal(size):
        model = model.without_factors()
    else:
        inverse = _inverse(counts)
    scales = follow_scales(counts)
    popularity, liking = popularity_of(counts, model), liking_of(counts)
    learned = Learned(), Learned()
    if inverse is not None and visits is not None:
        tables = VisitTables(counts, inverse, scales, popularity)
        learned = (
            learn(tables, visits[0], others, now=False),
            learn(tables, visits[1], others, now=True),
        )
    within, between = (following(table, scales) for table in (counts.within, counts.between))
    nothing = np.zeros((size, 0), np.float32)
    links = nothing if inverse is None else ease.weights_from(inverse)
    side = ItemSide(
        counts.cut,
        counts.keys.astype(np.uint64),
        popularity,
        lately_of(counts, popularity),
        liking,
        np.clip(np.nan_to_num(ratings, nan=MIDDLE), 1, 5).astype(np.float32),
        *ease.prune(links, ease.LINKS_A_ROW),
        *ease.prune(nothing if within is None else within, FOLLOWS_A_ROW),
        *ease.prune(nothing if between is None else between, VISIT_FOLLOWS_A_ROW),
        model.factors,
        *(each.weights for each in learned),
    )
    return Derived(side, model, *learned)


def popularity_of(counts: PairCounts, model: LowRank) -> NDArray[np.float32]:
    """Return the probability that a user has each item (n,), above 0: the mean of that of all time
    and that by the recent counts, which follow what is new; where presence is protected, the rates.
    """
    devices = max(float(counts.exposures.max(initial=0)), 1.0)
    if counts.channel is not None:
        return np.maximum(model.rates, np.float32(0.5 / devices))
    share = counts.reports / devices
    if counts.recent_total > 0:
        share = (share + recent_share(counts, counts.recent)) / 2
    return np.asarray(share + 0.5 / devices, np.float32)


def lately_of(counts: PairCounts, popularity: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the log of the probability that a user has each item (n,) by the recent counts, which
    are shrunk towards the popularity; that of the popularity where nothing is recent.
    Beside the popularity it says in which direction an item moves.
    """
    if counts.channel is not None or not counts.recent_total > 0:
        return np.log(popularity)
    share = recent_share(counts, counts.recent)
    return np.asarray(np.log(share + LATELY_PRIOR * popularity), np.float32)


def liking_of(counts: PairCounts) -> NDArray[np.float32]:
    """Return the log of the share of likes of each item (n,) against that of all items; 0 where
    presence is protected, and only likes are counted."""
    reports = counts.reports.astype(np.float64)
    if counts.channel is not None or not reports.sum() > 0:
        return np.zeros(len(reports), np.float32)
    likes = likes_of(counts).astype(np.float64)
    mean = max(float(likes.sum() / reports.sum()), 1e-3)
    found = (likes + LIKING_PRIOR * mean) / (reports + LIKING_PRIOR) / mean
    return np.log(found).astype(np.float32)


def least_signal(size: int) -> float:
    """Return the share of signal below which `size` items have neither links nor factors: at least
    three standard errors of the share where there is none."""
    return max(LEAST_SIGNAL, 3 * math.sqrt(4 / max(size * (size - 1), 1)))


def _inverse(counts: PairCounts) -> NDArray[np.float32] | None:
    """Return (G + ridge I)^-1; None for too few data."""
    G = ease.moments(counts)
    if len(G) < 2 or counts.exposures.max(initial=0) < LEAST_DEVICES or not np.trace(G) > 0:
        return None
    return ease.inverse(G, ease.ridge(counts))


def _start(keys: NDArray[np.uint64], previous: Derived | None) -> NDArray[np.float32] | None:
    """Return the previous factors in the order of `keys`, zero for new items."""
    if previous is None or not previous.model.factors.size:
        return None
    old = previous.side.keys
    order = np.argsort(old)
    at = np.searchsorted(old[order], keys).clip(0, len(order) - 1)
    slots = order[at]
    known = old[slots] == keys
    return np.where(known[:, None], previous.model.factors[slots], 0).astype(np.float32)

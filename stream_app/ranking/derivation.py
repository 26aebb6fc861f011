"""The item side from the pair counts: run it off the learning thread, at most once a second."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_app.ranking import ease, low_rank, ordered
from stream_app.ranking.item_side import ItemSide
from stream_app.ranking.pair_counts import PairCounts

MIDDLE = 3.0  # the rating of an item of which nothing is known, on 1 .. 5
LEAST_DEVICES = 2
LEAST_SIGNAL = 0.05  # of the variance of the correlations of noised reports


@dataclass(frozen=True)
class Derivation:
    """How much is derived: the longest rows of links, the most factors, and the ridge (None: by the
    number of devices)."""

    links: int = ease.LINKS_A_ROW
    follows: int = ordered.FOLLOWS_A_ROW
    most_factors: int = low_rank.MOST_FACTORS
    ridge: float | None = None


def derive(
    counts: PairCounts,
    ratings: NDArray[np.float32],
    options: Derivation | None = None,
    previous: ItemSide | None = None,
) -> ItemSide:
    """Return the item side of `counts`; `ratings` (n,): predicted rating of the average user, 1 ..
    5. `previous` makes the factors cheaper to find. Too few data give empty links and no factors,
    never NaN: lists are then the popular items."""
    options = options or Derivation()
    size = len(counts.keys)
    model = low_rank.estimate(counts, options.most_factors, _start(counts.keys, previous))
    # Links of noise make lists that are worse than the popular items. With one bit a cell from 500
    # to 1,500 devices they were worse up to a share of .03 and better from .07 on.
    if counts.channel is not None and low_rank.signal(counts, model.rates) < least_signal(size):
        model = low_rank.LowRank(model.rates, np.zeros((size, 0), np.float32))
        targets, weights = _no_links(size)
    else:
        targets, weights = _links(counts, options)
    next_table = ordered.following(counts)
    if next_table is None:
        next_table = np.zeros((size, 0), np.float32)
    next_targets, next_weights = ease.prune(next_table, options.follows)
    variance = np.maximum(model.rates * (1 - model.rates), low_rank.LEAST_VARIANCE)
    return ItemSide(
        version=counts.cut,
        keys=counts.keys.astype(np.uint64),
        popularity=model.rates,
        ratings=np.clip(np.nan_to_num(ratings, nan=MIDDLE), 1, 5).astype(np.float32),
        link_targets=targets,
        link_weights=weights,
        next_targets=next_targets,
        next_weights=next_weights,
        rates=model.rates,
        factors=model.factors,
        noise=variance.astype(np.float32),
    )


def least_signal(size: int) -> float:
    """Return the share of signal below which `size` items have neither links nor factors: at least
    three standard errors of the share where there is none."""
    return max(LEAST_SIGNAL, 3 * math.sqrt(4 / max(size * (size - 1), 1)))


def _links(
    counts: PairCounts, options: Derivation
) -> tuple[NDArray[np.uint16], NDArray[np.float32]]:
    size = len(counts.keys)
    G = ease.moments(counts)
    if size < 2 or counts.exposures.max(initial=0) < LEAST_DEVICES or not np.trace(G) > 0:
        return _no_links(size)
    ridge = ease.ridge(counts) if options.ridge is None else options.ridge
    return ease.prune(ease.weights(G, ridge), options.links)


def _no_links(size: int) -> tuple[NDArray[np.uint16], NDArray[np.float32]]:
    return np.zeros((size, 0), np.uint16), np.zeros((size, 0), np.float32)


def _start(keys: NDArray[np.uint64], previous: ItemSide | None) -> NDArray[np.float32] | None:
    """Return the previous factors in the order of `keys`, zero for new items."""
    if previous is None or not previous.factors.size:
        return None
    order = np.argsort(previous.keys)
    at = np.searchsorted(previous.keys[order], keys).clip(0, len(order) - 1)
    slots = order[at]
    known = previous.keys[slots] == keys
    return np.where(known[:, None], previous.factors[slots], 0).astype(np.float32)

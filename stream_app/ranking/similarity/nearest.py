"""The k best items by a score, the items most similar to one, and the reason for an entry.

    order   higher score first; equal scores by tie_j = hash64(key_j xor hash64(seed)), smallest
            first: splitmix64's finalizer, a bijection, so two items never tie

Every worker returns the same list, and no item is first for its age or its number.

    because_j = argmax over the history k of  contribution_kj

contribution_kj: s_kj of cosine, t_k - 3 of Slope One.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.ranking.item_side import ItemSide
from stream_app.ranking.scores import top_slots

_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_GOLDEN = 0x9E3779B97F4A7C15


def ties(keys: NDArray[np.uint64], seed: int = 0) -> NDArray[np.uint64]:
    """Return (n,) the tie of each item key, all different."""
    salt = hash64(np.array([(seed + 1) * _GOLDEN % 2**64], np.uint64))
    return hash64(np.asarray(keys, np.uint64) ^ salt)


def similar_to(
    similarities: NDArray[np.float32], slot: int, k: int, ties: NDArray[np.uint64]
) -> NDArray[np.int64]:
    """Return the slots of the k items most similar to that of `slot`, best first.

    Only items with a similarity above 0, and never the item itself; none for an item without a
    slot (-1).
    """
    if not 0 <= slot < len(similarities):
        return np.zeros(0, np.int64)
    row = similarities[slot]
    allowed = row > 0
    allowed[slot] = False
    return top_slots(row, k, allowed, ties)


def hash64(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the finalizer of splitmix64 of each of x."""
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    return x ^ (x >> np.uint64(31))


NOTHING = -1


def because(
    contributions: NDArray[np.floating],
    slots: NDArray[np.integer],
    ties: NDArray[np.uint64] | None = None,
) -> NDArray[np.int64]:
    """Return (t,) the slot of the item of the history that contributes most to each of t items, or
    -1 where nothing contributes more than 0.

    contributions (m, t): from `cosine.contributions` or `slope_one.contributions`. slots (m,): the
    history; an item without a slot (-1) is no reason. ties (n,): of equal contributions the item
    of the smallest tie is returned (`nearest.ties`), without it the first of the history.
    """
    places = np.asarray(slots, np.int64)
    order = np.flatnonzero(places >= 0)
    if ties is not None:
        order = order[np.argsort(ties[places[order]], kind="stable")]
    targets = contributions.shape[1]
    if not len(order) or not targets:
        return np.full(targets, NOTHING, np.int64)
    rows = contributions[order]
    best = rows.argmax(axis=0)
    most = rows[best, np.arange(targets)]
    return np.where(most > 0, places[order[best]], NOTHING).astype(np.int64)


def linked_to(side: ItemSide, slot: int) -> NDArray[np.int64]:
    """Return the slots of all items to which `slot` has a positive link, strongest first; never the
    item itself.

    The list by `ease` for a history of that one item, where no co-ratings are kept
    (`ranking/ease.py`)."""
    weights = np.zeros(len(side), np.float32)
    np.add.at(weights, side.link_targets[slot], side.link_weights[slot])
    weights[slot] = 0
    return top_slots(weights, len(weights), weights > 0, ties(side.keys))

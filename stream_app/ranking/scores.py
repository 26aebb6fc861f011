"""Scores of the head items for one history: one formula for servers, devices and evaluations.

    score_j = sum over the components c of  (w_c + v_c log(1 + n) / 4)  component_cj

    links       x B                       what goes with the history        (`ease.py`)
    visit       the same of the last visit alone
    place       the same with weights exp(-age / 5)
    popularity  log p                     p: the probability that a user has the item
    lately      log of it by the recent counts alone
    liking      log of the share of likes against that of all items
    within      sqrt(a F)                 what follows in a visit           (`visit_events.py`)
    between     sqrt(a N)                 what follows at the next visit
    share       p

n: items of the history. Links predict a probability, so the default,

    score = x B + .3 p,

needs no scale: it is popularity without a history and links with a long one. Nothing is
standardised by user or by list, or a short history would count as much as a long one. Other weights
are learned on what devices like at a later visit (`learned_weights.py`).

Items near to one are in order of its links; of equal ones the smallest

    tie_j = hash64(key_j xor hash64(golden))      splitmix64's finalizer, so two items never tie

is first: every worker returns the same list, and no item is first for its age or its number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.ranking.histories import History
from stream_app.ranking.item_side import ItemSide

SHARE = 0.3
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_GOLDEN = np.array([0x9E3779B97F4A7C15], np.uint64)

Column = NDArray[np.float32]


class Components(NamedTuple):
    """The components of every head item, (n,) each."""

    links: Column
    visit: Column
    place: Column
    popularity: Column
    lately: Column
    liking: Column
    within: Column
    between: Column
    share: Column


COUNT = len(Components._fields)
DEFAULT = np.zeros(2 * COUNT, np.float32)
"""The default weights, w and then v: links and three tenths of the share."""
DEFAULT[Components._fields.index("links")] = 1.0
DEFAULT[Components._fields.index("share")] = SHARE


def weights_of(side: ItemSide, *, now: bool) -> Column:
    """Return the weights (2 c,) of a list: learned ones where the side has them."""
    learned = side.now_weights if now else side.next_weights
    return learned if len(learned) else DEFAULT


def basis_of(side: ItemSide, history: History, *, now: bool) -> str:
    """Return what a list is made from: `learned` weights, `links`, or what is `popular`."""
    if len(side.now_weights if now else side.next_weights):
        return "learned"
    return "links" if len(history.slots) and side.link_targets.shape[1] else "popular"


def length_factor(n: int | NDArray[np.integer]) -> NDArray[np.float64]:
    """Return log(1 + n) / 4."""
    return np.asarray(np.log1p(n) / 4)


def at_length(weights: Column, n: int) -> Column:
    """Return the weight of each component (c,) for a history of n items."""
    w, v = weights[:COUNT], weights[COUNT:]
    return np.asarray(w + v * length_factor(n), np.float32)


def score(side: ItemSide, history: History, *, now: bool = False) -> Column:
    """Return the score (n,) of every head item for a history."""
    used = at_length(weights_of(side, now=now), len(history.slots))
    total = np.zeros(len(side), np.float32)
    for weight, part in zip(used, component_scores(side, history, used != 0), strict=True):
        if weight:
            total += weight * part
    return total


def component_scores(
    side: ItemSide, history: History, wanted: NDArray[np.bool_] | None = None
) -> Components:
    """Return the components of every head item; those that are not `wanted` (c,) are zero."""
    wanted = np.ones(COUNT, np.bool_) if wanted is None else wanted
    nothing, x = np.zeros(len(side), np.float32), history.weights
    links = side.link_targets, side.link_weights
    made: tuple[Callable[[], Column], ...] = (
        lambda: _row_sums(*links, history.slots, x),
        lambda: _row_sums(*links, history.slots, x * history.last_visit),
        lambda: _row_sums(*links, history.slots, x * history.recent),
        lambda: np.log(side.popularity),
        lambda: side.lately,
        lambda: side.liking,
        lambda: _rooted(side.within_targets, side.within_weights, history.slots, history.recent),
        lambda: _rooted(
            side.between_targets, side.between_weights, history.slots, history.last_visit
        ),
        lambda: side.popularity,
    )
    return Components(*(m() if w else nothing for m, w in zip(made, wanted, strict=True)))


def top_slots(
    scores: NDArray[np.floating],
    k: int,
    allowed: NDArray[np.bool_] | None = None,
    ties: NDArray[np.uint64] | None = None,
) -> NDArray[np.intp]:
    """Return the slots of the k largest scores, best first, equal scores by the smaller of `ties`
    (n,), by slot without them; fewer where `allowed` (n,) leaves fewer. Scores are never NaN."""
    slots = np.arange(len(scores)) if allowed is None else np.flatnonzero(allowed)
    found = scores[slots]
    if 0 < k < len(slots):
        least = np.partition(found, len(found) - k)[len(found) - k]
        slots = slots[found >= least]
    order = np.lexsort((slots if ties is None else ties[slots], -scores[slots]))[: max(k, 0)]
    return slots[order]


def fallback(popularity: Column, ratings: Column) -> Column:
    """Return the scores of items outside the head, of whose company nothing is known: popularity
    times predicted rating."""
    return (popularity * ratings).astype(np.float32)


def ties(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return (n,) the tie of each item key, all different."""
    return hash64(np.asarray(keys, np.uint64) ^ hash64(_GOLDEN))


def hash64(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the finalizer of splitmix64 of each of x."""
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    return x ^ (x >> np.uint64(31))


def linked_to(side: ItemSide, slot: int) -> NDArray[np.int64]:
    """Return the slots of all items to which `slot` has a positive link, strongest first; never the
    item itself.

    The list by `ease` for a history of that one item (`ranking/ease.py`)."""
    weights = np.zeros(len(side), np.float32)
    np.add.at(weights, side.link_targets[slot], side.link_weights[slot])
    weights[slot] = 0
    return top_slots(weights, len(weights), weights > 0, ties(side.keys))


def _row_sums(
    targets: NDArray[np.uint16], weights: Column, slots: NDArray[np.intp], x: Column
) -> Column:
    counted = np.flatnonzero(x)
    slots, x = slots[counted], x[counted]
    picked = (x[:, None] * weights[slots]).ravel()
    found = np.bincount(targets[slots].ravel(), picked, minlength=len(targets))
    return found.astype(np.float32)


def _rooted(
    targets: NDArray[np.uint16], weights: Column, slots: NDArray[np.intp], a: Column
) -> Column:
    found: Column = np.sqrt(_row_sums(targets, weights, slots, a))
    return found

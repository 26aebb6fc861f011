"""The items of a list from the scores of many: the best, unlike each other, few of one category;
and new items, of which little is known.

    best        the places of the largest scores that pass, equal scores in the order given
    diversity   maximal marginal relevance (Carbonell and Goldstein 1998), one item after another:

                    argmax_j  (1 - d) s_j  -  d max over the chosen i of sim_ij

                s: scores scaled to 0 .. 1 over the candidates; d: the diversity, 0 .. 1
    categories  at most m items of any one category; an item counts in each of its categories

    new items   Thompson sampling (Thompson 1933; Chapelle and Li 2011):

                    theta_j ~ Beta(K r + L_j, K (1 - r) + max(N_j - L_j, 0)),   the largest theta

                L_j: likes, N_j: offers, both decayed, by the edge's own users; r: likes per offer
                of all new items, of which K count as known before

Candidates of the second are the best CANDIDATES times as many as are wanted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from producers.edge.lists.item_index import Places
from stream_app.ranking.scores import top_slots

CANDIDATES = 5
_LEAST_CANDIDATES = 50
_CHUNK = 4096
KNOWN_BEFORE = 10.0  # offers
_UNKNOWN_RATE = 0.05  # likes per offer, as if of KNOWN_BEFORE offers

Passes = Callable[[Places], NDArray[np.bool_]]
Similar = Callable[[Places], NDArray[np.floating] | None]


class Scores(NamedTuple):
    """Items by one model: places (n,), and the score of each (n,); `falling`: they are in the order
    of the list. A slot is the number of an item here."""

    places: Places
    scores: NDArray[np.floating]
    falling: bool = False


NO_SCORES = Scores(np.zeros(0, np.intp), np.zeros(0), falling=True)


def best(found: Scores, most: int, passes: Passes) -> NDArray[np.intp]:
    """Return the slots of the `most` best items that pass, best first."""
    if not found.falling:
        return top_slots(found.scores, most, passes(found.places))
    chosen, start, count = list[NDArray[np.intp]](), 0, 0
    while count < most and start < len(found.places):
        part = found.places[start : start + _CHUNK]
        slots = start + np.flatnonzero(passes(part))
        chosen.append(slots)
        start, count = start + _CHUNK, count + len(slots)
    return np.concatenate(chosen)[:most] if chosen else np.zeros(0, np.intp)


def picked(
    found: Scores,
    n: int,
    passes: Passes,
    room: Room,
    diversity: float,
    similar: Similar | None,
) -> NDArray[np.intp]:
    """Return at most n slots, best first, and count them in the room. similar: the similarities
    (c, c), at most 1, of items at places (c,); where it is or gives None, by shared categories."""
    if room.is_free and not diversity:
        return best(found, n, passes)
    wanted = max(CANDIDATES * n, _LEAST_CANDIDATES)
    slots = best(found, wanted, passes)
    if diversity and len(slots):
        likeness = similar(found.places[slots]) if similar else None
        if likeness is None:
            likeness = shared([room.categories(place) for place in found.places[slots].tolist()])
        chosen = _diverse(found, slots, n, diversity, likeness, room)
    else:
        chosen = _walk(found, slots, n, room)
    if len(chosen) < n and len(slots) == wanted:  # the best are all of a few categories
        rest = best(found, len(found.places), passes)[wanted:]
        chosen += _walk(found, rest, n - len(chosen), room)
    return np.array(chosen, np.intp)


class Room:
    """What is left of each category in one list."""

    def __init__(self, most: int | None, categories: Callable[[int], Sequence[str]]) -> None:
        self._most, self.categories = most, categories
        self._counts = Counter[str]()

    @property
    def is_free(self) -> bool:
        """Whether there is room for every item."""
        return self._most is None

    def takes(self, place: int) -> bool:
        """Return whether there is room for the item at a place, and count it if so."""
        if self._most is None:
            return True
        own = set(self.categories(place))
        if any(self._counts[each] >= self._most for each in own):
            return False
        self._counts.update(own)
        return True


def shared(categories: Sequence[Sequence[str]]) -> NDArray[np.float64]:
    """Return the share of categories that each two items have in common, of those that either has
    (Jaccard 1901); 0 for two without any."""
    names = {name: n for n, name in enumerate({each for own in categories for each in own})}
    has = np.zeros((len(categories), len(names)))
    for row, own in enumerate(categories):
        has[row, [names[each] for each in own]] = 1
    both, counts = has @ has.T, has.sum(axis=1)
    return np.asarray(both / np.maximum(counts[:, None] + counts - both, 1))


def _walk(found: Scores, slots: NDArray[np.intp], n: int, room: Room) -> list[int]:
    """Return the first n slots that there is room for."""
    chosen = list[int]()
    for slot in slots.tolist():
        if len(chosen) == n:
            break
        if room.takes(int(found.places[slot])):
            chosen.append(slot)
    return chosen


def _diverse(
    found: Scores,
    slots: NDArray[np.intp],
    n: int,
    diversity: float,
    likeness: NDArray[np.floating],
    room: Room,
) -> list[int]:
    """Return at most n of the candidates in the order of their marginal relevance."""
    gains = (1 - diversity) * _scaled(found.scores[slots])
    nearest, free = np.full(len(slots), -np.inf), np.ones(len(slots), np.bool_)
    chosen = list[int]()
    while len(chosen) < n and free.any():
        left = gains - diversity * nearest if chosen else gains
        row = int(np.argmax(np.where(free, left, -np.inf)))
        free[row] = False
        if room.takes(int(found.places[slots[row]])):
            nearest = np.maximum(nearest, likeness[row])
            chosen.append(int(slots[row]))
    return chosen


def _scaled(scores: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return scores from 0 to 1, with their order."""
    if not len(scores):
        return np.zeros(0)
    low, span = float(scores.min()), float(np.ptp(scores))
    return np.asarray((scores.astype(np.float64) - low) / (span or 1.0))


class NewItems(NamedTuple):
    """The items to explore, with their decayed likes and offers (n,) each."""

    places: Places
    likes: NDArray[np.float64]
    offers: NDArray[np.float64]

    def kept(self, passing: NDArray[np.bool_]) -> NewItems:
        """Return some of the items."""
        return NewItems(self.places[passing], self.likes[passing], self.offers[passing])


NOTHING = NewItems(np.zeros(0, np.intp), np.zeros(0), np.zeros(0))


def drawn(items: NewItems, most: int, random: np.random.Generator) -> Places:
    """Return at most `most` items by one draw from each posterior, the largest first."""
    if not len(items.places) or most < 1:
        return np.zeros(0, np.intp)
    likes = np.minimum(items.likes, items.offers)
    seen = float(items.offers.sum())
    rate = (float(likes.sum()) + KNOWN_BEFORE * _UNKNOWN_RATE) / (seen + KNOWN_BEFORE)
    hits = KNOWN_BEFORE * rate + items.likes
    misses = KNOWN_BEFORE * (1 - rate) + np.maximum(items.offers - items.likes, 0)
    theta = random.beta(hits, misses)
    return items.places[np.argsort(-theta, kind="stable")[:most]]


def shares(n: int, share: float, random: np.random.Generator) -> NDArray[np.intp]:
    """Return which of n places of a list are for new items, rising: each with chance `share`."""
    return np.flatnonzero(random.random(n) < share)

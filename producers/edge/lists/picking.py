"""The items of a list from the scores of many: the best, unlike each other, few of one category.

best        the first that pass, in the order of the model
diversity   maximal marginal relevance (Carbonell and Goldstein 1998), one item after another:

                argmax_j  (1 - d) s_j  -  d max over the chosen i of sim_ij

            s: scores scaled to 0 .. 1 over the candidates, the best CANDIDATES times as many as
            are wanted; d: the diversity, 0 .. 1
categories  at most m items of any one category; an item counts in each of its categories

A list may hold what is offered (in the catalogue, available and not hidden; while the catalogue is
empty, any item) and what the filter allows. The mask of a filter is filled where it is asked for:
three states an item, so that a filter over 100,000 items costs a list only the items that it looks
at. A later version of the catalogue begins new ones: an item that is hidden or removed is in no
list from then on.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from producers.edge.catalogue.filters import Filter
from producers.edge.catalogue.site_catalogue import Catalogue, ItemRow, Snapshot
from producers.edge.lists.item_index import ItemIndex, Places

CANDIDATES = 5
_LEAST_CANDIDATES = 50
_CHUNK = 4096

Passes = Callable[[Places], NDArray[np.bool_]]


class Ranked(NamedTuple):
    """Items by one model, best first: places (n,), and the score of each (n,); how it ranked, and
    what a list needs besides: the items of the history behind items at places (None: it has no
    reasons), and how alike they are, (c, c) up to 1 (None: by their categories)."""

    places: Places
    scores: NDArray[np.floating]
    method: str
    known: int = 0
    as_of: int | None = None
    reasons: Callable[[Places], list[tuple[str, ...]]] | None = None
    similar: Callable[[Places], NDArray[np.floating] | None] | None = None


def by_score(places: Places, scores: NDArray[np.floating], *more: object) -> Ranked:
    """Return items in the order of their scores, equal ones as they are given."""
    order = np.argsort(-scores, kind="stable")
    return Ranked(places[order], scores[order], *more)  # type: ignore[arg-type]


def passing(places: Places, passes: Passes) -> Iterator[int]:
    """Yield the rows of items that pass, in their order; no more are looked at than needed."""
    for start in range(0, len(places), _CHUNK):
        yield from (start + np.flatnonzero(passes(places[start : start + _CHUNK]))).tolist()


class Room:
    """What is left of each category in one list."""

    def __init__(self, most: int | None, categories: Callable[[int], Sequence[str]]) -> None:
        self.most, self.categories = most, categories
        self._counts, self._full = Counter[str](), set[str]()

    def takes(self, place: int) -> bool:
        """Return whether there is room for the item at a place, and count it if so."""
        if self.most is None:
            return True
        own = self.categories(place)
        if not self._full.isdisjoint(own):
            return False
        self._counts.update(set(own))
        self._full |= {each for each in own if self._counts[each] >= self.most}
        return True


def picked(found: Ranked, n: int, passes: Passes, room: Room, diversity: float) -> list[int]:
    """Return the rows of at most n items, best first, and count them in the room."""
    rest, chosen = passing(found.places, passes), list[int]()
    if diversity:
        rows = list(islice(rest, max(CANDIDATES * n, _LEAST_CANDIDATES)))
        chosen = _diverse(found, rows, n, room, diversity)
    while len(chosen) < n and (row := next(rest, None)) is not None:
        if room.takes(int(found.places[row])):
            chosen.append(row)
    return chosen


def _diverse(found: Ranked, rows: list[int], n: int, room: Room, diversity: float) -> list[int]:
    """Return at most n of the candidates in the order of their marginal relevance."""
    places, scores = found.places[rows], found.scores[rows].astype(np.float64)
    likeness = found.similar(places) if found.similar else None
    if likeness is None:
        likeness = shared([room.categories(place) for place in places.tolist()])
    scaled = scores - scores.min(initial=np.inf)
    scaled /= scaled.max(initial=0.0) or 1.0
    left, nearest = (1 - diversity) * scaled, np.full(len(rows), -1.0)  # the least likeness
    chosen = list[int]()
    while len(chosen) < n and (left > -np.inf).any():
        row = int(np.argmax(left - diversity * nearest))
        left[row] = -np.inf
        if room.takes(int(places[row])):
            nearest = np.maximum(nearest, likeness[row])
            chosen.append(rows[row])
    return chosen


def shared(categories: Sequence[Sequence[str]]) -> NDArray[np.float64]:
    """Return the share of categories that each two items have in common, of those that either has
    (Jaccard 1901); 0 for two without any."""
    names = {name: n for n, name in enumerate({each for own in categories for each in own})}
    has = np.zeros((len(categories), len(names)))
    for row, own in enumerate(categories):
        has[row, [names[each] for each in own]] = 1
    both, counts = has @ has.T, has.sum(axis=1)
    return np.asarray(both / np.maximum(counts[:, None] + counts - both, 1))


_UNKNOWN = -1
_MOST_MASKS = 256


class Allowed:
    """What one filter allows of one snapshot of the catalogue."""

    def __init__(self, snapshot: Snapshot, index: ItemIndex, only: Filter | None) -> None:
        self.snapshot, self._texts, self._only = snapshot, index.texts, only
        self._states = np.full(len(index), _UNKNOWN, np.int8)

    def passing(self, places: Places) -> NDArray[np.bool_]:
        """Return whether each item may be offered; what another thread finds meanwhile may be found
        again."""
        states, items = self._states, len(self._texts)
        if len(states) < items:
            more = np.full(items - len(states), _UNKNOWN, np.int8)
            states = self._states = np.concatenate((states, more))
        found = states[places]
        if (found == _UNKNOWN).any():
            for place in places[found == _UNKNOWN].tolist():
                states[place] = self._passes(self._texts[place])
            found = states[places]
        return np.asarray(found == 1)

    def row(self, place: int) -> ItemRow:
        """Return what the catalogue says of an item, an empty row where it has none."""
        text = self._texts[place]
        return self.snapshot.rows.get(text) or ItemRow(item=text)

    def _passes(self, text: str) -> bool:
        rows, row = self.snapshot.rows, self.snapshot.rows.get(text)
        if row is None:
            return not rows and self._only is None and text not in self.snapshot.away
        return row.available and not row.hidden and (self._only is None or self._only.allows(row))


class Masks:
    """The masks of the newest catalogue, by filter."""

    def __init__(self, catalogue: Catalogue, index: ItemIndex) -> None:
        self._catalogue, self._index = catalogue, index
        self._version, self._choosing = -1, threading.Lock()
        self._kept: dict[Filter | None, Allowed] = {}

    def newest(self, only: Filter | None) -> Allowed:
        """Return the mask of a filter over the catalogue as it is now."""
        with self._choosing:
            snapshot = self._catalogue.snapshot()
            if snapshot.version != self._version or len(self._kept) >= _MOST_MASKS:
                self._kept, self._version = {}, snapshot.version
            if only not in self._kept:
                self._kept[only] = Allowed(snapshot, self._index, only)
            return self._kept[only]

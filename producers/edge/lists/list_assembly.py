"""One list from one model after another, with places for new items.

new items    each place with the chance of the share, drawn first           (`picking.py`)
first model  the places that are left
next models  what the ones before could not fill, in the order of falling back
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from producers.edge.lists.item_index import Places
from producers.edge.lists.list_rules import Allowed
from producers.edge.lists.models import Ranked
from producers.edge.lists.newest_tables import Shelf
from producers.edge.lists.picking import NO_SCORES, NewItems, Room, drawn, picked, shares
from producers.edge.lists.stored_history import Done
from producers.edge.lists.wishes import EdgeItem, EdgeList, Wish

EXPLORED = "explore"
Step = tuple[str, Callable[[], Ranked | str]]


class Making(NamedTuple):
    """What one list is made with: what was done, the mask, what is blocked by place, what is left
    of the categories, and the public table."""

    wish: Wish
    done: Done
    now: bool
    allowed: Allowed
    blocked: NDArray[np.bool_]
    room: Room
    shelf: Shelf | None

    def passes(self, places: Places) -> NDArray[np.bool_]:
        """Return whether each item may be in the list; not one that was met only now."""
        known = places < len(self.blocked)
        blocked = self.blocked[np.where(known, places, 0)]
        return self.allowed.passing(places) & known & ~blocked


def assembled(making: Making, steps: Iterable[Step], new: Sequence[EdgeItem] = ()) -> EdgeList:
    """Return the list without its id, model and account; `new`: items that have a place already."""
    wish, items, notes = making.wish, list[EdgeItem](), list[str]()
    first: tuple[str, Ranked] | None = None
    wanted = wish.n - len(new)
    for model, step in steps:
        if len(items) >= wanted:
            break
        ranked = step()
        if isinstance(ranked, str):
            notes.append(f"not by {model}: {ranked}")
            continue
        most, diversity = wanted - len(items), wish.diversity or 0.0
        slots = picked(ranked.scores, most, making.passes, making.room, diversity, ranked.similar)
        if len(slots):
            first = first or (model, ranked)
            items += _items(making, model, ranked, slots)
    if len(items) + len(new) < wish.n:
        notes.append(_shortage(making, len(items) + len(new)))
    nothing = EXPLORED if new else ""
    by, used = first or (nothing, Ranked(NO_SCORES, nothing))
    return EdgeList(
        id="",
        items=tuple(items),
        ranked_by=by,
        model="",
        method=used.method,
        rated=len(making.done.rated),
        known=used.known,
        as_of=used.as_of,
        reason="; ".join(notes),
    )


def explored(
    making: Making, new: NewItems, share: float, random: np.random.Generator
) -> dict[int, EdgeItem]:
    """Return new items by their places in the list, and block them for the models."""
    spots = shares(making.wish.n, share, random) if share else ()
    if not len(spots):
        return {}
    allowed = new.kept(making.passes(new.places))
    found = dict[int, EdgeItem]()
    for place in drawn(allowed, len(allowed.places), random).tolist():
        if len(found) == len(spots):
            break
        if making.room.takes(place):
            making.blocked[place] = True
            found[int(spots[len(found)])] = _item(making, EXPLORED, place, 0.0)
    return found


def mixed(items: Sequence[EdgeItem], new: dict[int, EdgeItem]) -> tuple[EdgeItem, ...]:
    """Return the items of a list with new ones at their places, or at its end."""
    found = list(items)
    for spot in sorted(new):
        found.insert(spot, new[spot])
    return tuple(found)


def _items(making: Making, model: str, ranked: Ranked, slots: NDArray[np.intp]) -> list[EdgeItem]:
    places, scores = ranked.scores.places[slots], ranked.scores.scores[slots].tolist()
    reasons: list[tuple[str, ...]] = [()] * len(slots)
    if making.wish.because and ranked.reasons is not None:
        reasons = ranked.reasons(places)
    making.blocked[places] = True
    return [
        _item(making, model, place, score, because)
        for place, score, because in zip(places.tolist(), scores, reasons, strict=True)
    ]


def _item(
    making: Making, by: str, place: int, score: float, because: tuple[str, ...] = ()
) -> EdgeItem:
    text, row = making.allowed.text(place), making.allowed.row(place)
    title = "" if row is None else row.title
    if not title and making.shelf is not None:
        title = making.shelf.title(place)
    if row is None:
        return EdgeItem(text, title, score, (), because, None, by)
    return EdgeItem(text, title, score, tuple(row.categories), because, row.image, by)


def _shortage(making: Making, count: int) -> str:
    items = "items of the catalogue" if making.allowed.snapshot.rows else "items"
    left = f"{count or 'no'} {items} are left"
    if making.wish.filter is not None:
        return f"{left} by the filter, without what was seen or excluded"
    if making.wish.most_per_category is not None:
        return f"{left} with {making.wish.most_per_category} of a category"
    return f"{left}, without what was seen or excluded"

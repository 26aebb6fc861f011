"""Lists of the edge: what a user is offered, and what goes with an item.

    account, history --> models in the order of falling back --> rules --> picking --> EdgeList

A list is ranked by the model that the wish or the arm of the user names. Where that one has nothing
to rank by, or too few items, the next one goes on: local, own, popular, latest. A list for a
session is made of the items that are sent along, which are kept nowhere.

A list of a user with events is ranked by all that the edge has counted. Every other answer is a
visitor's: of the site's own feedback it shows what at least `least_people` people stand behind; the
rest is of the catalogue or of the public table.

new items    each place with the chance of the share, drawn first, by the largest theta
             (`own_feedback.py`)
first model  the places that are left
next models  what the ones before could not fill, in the order of falling back
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from producers.edge.catalogue.site_catalogue import Catalogue
from producers.edge.http.contract.edge_bodies import Because, Listed
from producers.edge.lists.item_index import NOWHERE, ItemIndex, Places, named
from producers.edge.lists.models import AskWorkers, Models
from producers.edge.lists.newest_tables import PublicTables
from producers.edge.lists.own_feedback import Own
from producers.edge.lists.picking import Allowed, Masks, Ranked, Room, picked
from producers.edge.lists.stored_history import NOTHING, Done, Histories
from producers.edge.lists.wishes import MODELS, EdgeList, Wish
from producers.edge.quality.model_figures import arm_of
from producers.edge.site_terms import SiteTerms
from producers.edge.store.database import Database
from producers.ranking.clean_history import visit_at
from stream_app import wire
from stream_app.errors import UserError

FALLBACK = ("local", "own", "popular", "latest")
_DAY_SECONDS = 86_400
_PLAIN = Wish()
Keys = NDArray[np.uint64]


class ListMaker:
    """Makes lists, from any thread. `start` renews what they are made of; before it, or for tests,
    `models.step` does so once.

    server: asks the workers for a pseudonym. random: draws for exploration and the ids of lists.
    now: the seconds since 1970.
    """

    def __init__(
        self,
        database: Database,
        catalogue: Catalogue,
        tables: PublicTables,
        terms: SiteTerms,
        *,
        server: AskWorkers | None = None,
        random: np.random.Generator | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        if unknown := [model for model in terms.models if model not in MODELS]:
            raise UserError(
                f"[lists] models: {unknown[0][:32]} is no model; give some of {', '.join(MODELS)}"
            )
        self._key, self._terms, self._now = database.key, terms, now
        self._random = random or np.random.default_rng()
        self._histories, self._index = Histories(database), ItemIndex()
        self._masks = Masks(catalogue, self._index)
        self.models = Models(
            database, catalogue, self._index, tables, server, now, terms.least_people
        )
        self.start, self.stop = self.models.start, self.models.stop

    def for_user(self, user: str, wish: Wish = _PLAIN) -> EdgeList:
        """Return the list of a user, who need not have an account."""
        done, again = self._histories.done_by(user), self._terms.read_again_days
        model = wish.model or arm_of(user, self._terms.models, self._key)
        since = -1 if again is None else 1000 * (self._now() - again * _DAY_SECONDS)
        seen, asked = done.keys[done.at > since], wish.model is not None
        return self._personal(wish, model, done, seen, account=done.account, asked=asked)

    def for_session(self, items: Sequence[str], wish: Wish = _PLAIN) -> EdgeList:
        """Return a list for different items of a visit, oldest first; it is counted nowhere."""
        keys = np.array([named(item)[1] for item in items], np.uint64)
        day = int(self._now()) // _DAY_SECONDS
        at = 1000 * (day * _DAY_SECONDS + np.arange(len(keys)))  # one after another, today
        done = self._histories.nothing()._replace(
            keys=keys, raw_stars=np.full(len(keys), np.nan), at=at, counts=np.ones(len(keys), bool)
        )
        wish = replace(wish, visit=wish.visit or "now")
        return self._personal(wish, wish.model or FALLBACK[0], done, keys)

    def similar(self, item: str, wish: Wish = _PLAIN) -> EdgeList:
        """Return the items that go with one: by the public table, by the edge's own likes, and then
        by the categories that they share with it."""

        own = self._own(self._histories.nothing(), visitor=True)

        def near() -> Iterable[tuple[str, Ranked | str]]:
            for model in ("local", "own"):
                yield model, self.models.near(model, item, own)
            yield "popular", self.models.of_categories(self._masks.newest(None).row, item, own)

        return self._made(wish, "local", near(), own, np.array([named(item)[1]], np.uint64))

    def popular(self, wish: Wish = _PLAIN) -> EdgeList:
        """Return what the edge's users like, of all time and lately; then the latest."""
        return self._of_visitor(wish, ("popular", "latest"))

    def latest(self, wish: Wish = _PLAIN) -> EdgeList:
        """Return the items that came into the catalogue last."""
        return self._of_visitor(wish, ("latest",))

    def because(self, user: str, item: str) -> Because:
        """Return the items of a user's history that speak for an item."""
        done, place = self._histories.done_by(user), self._index.find(item)
        own = self._own(done, visitor=True)
        for model, ranked in self._ranked(("local", "own"), done, own):
            if isinstance(ranked, str) or ranked.reasons is None:
                continue
            places = ranked.places[ranked.places == place]
            if len(places) and (items := ranked.reasons(places)[0]):
                return Because(user, item, model, items, "")
        return Because(user, item, "", (), "nothing that the user has done speaks for it")

    def _own(self, done: Done, *, visitor: bool) -> Own:
        return self.models.own(done.deletions, visitor=visitor)

    def _of_visitor(self, wish: Wish, models: Sequence[str]) -> EdgeList:
        done = self._histories.nothing()
        own = self._own(done, visitor=True)
        return self._made(wish, models[0], self._ranked(models, done, own), own)

    def _personal(self, wish: Wish, model: str, done: Done, seen: Keys, **fields: Any) -> EdgeList:
        rated = done.at[done.counts]
        now = wire.is_now(
            wish.visit or visit_at(rated[-1] // 1000 if len(rated) else None, self._now())
        )
        own = self._own(done, visitor=not done.account)
        steps = self._ranked(dict.fromkeys((model, *FALLBACK)), done, own, now=now)
        share = self._terms.explore
        return self._made(wish, model, steps, own, seen, share, rated=len(rated), **fields)

    def _ranked(
        self, models: Iterable[str], done: Done, own: Own, *, now: bool = False
    ) -> Iterable[tuple[str, Ranked | str]]:
        return ((model, self.models.ranked(model, done, own, now=now)) for model in models)

    def _made(
        self,
        wish: Wish,
        model: str,
        steps: Iterable[tuple[str, Ranked | str]],
        own: Own,
        seen: Keys = NOTHING.keys,
        explore: float = 0.0,
        **fields: Any,
    ) -> EdgeList:
        """Return the list of these models, each asked where the ones before leave places."""
        shelf, blocked = self.models.shelf, np.zeros(len(self._index), np.bool_)
        blocked[NOWHERE] = True
        excluded = (named(item)[1] for item in wish.exclude)
        blocked[self._index.places((*seen.tolist(), *excluded))] = True
        if shelf is not None:
            blocked[shelf.withdrawn] = True
        allowed = self._masks.newest(wish.filter)
        if own.shown is not None and not allowed.snapshot.rows:
            # Without a catalogue, events alone may have named an item.
            shown = np.zeros(len(blocked), np.bool_)
            shown[: len(own.shown)] = own.shown[: len(shown)]
            if shelf is not None:
                shown[shelf.named] = True
            blocked |= ~shown
        making = Making(wish, allowed, blocked, shelf.titles if shelf else {})
        name = self._random.bytes(8).hex()
        making.explore(own.new, explore, self._random)
        for by, ranked in steps:
            making.add(by, ranked)
            if not making.left:
                break
        return making.made(id=name, model=model, **fields)


EXPLORED = "explore"


class Making:
    """A list that is not whole yet.

    blocked: what may not be in it by place, as what was seen; what is in it is blocked, too.
    titles: of the public table, for items without one in the catalogue.
    """

    def __init__(
        self, wish: Wish, allowed: Allowed, blocked: NDArray[np.bool_], titles: Mapping[int, str]
    ) -> None:
        self._wish, self._allowed, self._titles = wish, allowed, titles
        self._blocked = blocked
        self._room = Room(wish.most_per_category, lambda place: allowed.row(place).categories)
        self._items, self._notes = list[Listed](), list[str]()
        self._new: dict[int, Listed] = {}
        self._first: tuple[str, Ranked] | None = None

    @property
    def left(self) -> int:
        """How many items are still wanted."""
        return self._wish.n - len(self._items) - len(self._new)

    def explore(
        self, new: tuple[Places, Any, Any], share: float, random: np.random.Generator
    ) -> None:
        """Give places of the list to new items: their places in the index, hits and misses."""
        spots = np.flatnonzero(random.random(self._wish.n) < share).tolist()
        if not spots:
            return
        kept = self._passes(new[0])
        places, hits, misses = (column[kept] for column in new)
        for place in places[np.argsort(-random.beta(hits, misses), kind="stable")].tolist():
            if len(self._new) == len(spots):
                return
            if self._room.takes(place):
                self._new[spots[len(self._new)]] = self._item(EXPLORED, place)

    def add(self, model: str, ranked: Ranked | str) -> None:
        """Add the best of a model, or note why it has none."""
        if isinstance(ranked, str):
            self._notes.append(f"not by {model}: {ranked}")
            return
        diversity = self._wish.diversity or 0.0
        rows = picked(ranked, self.left, self._passes, self._room, diversity)
        if rows:
            self._first = self._first or (model, ranked)
        places, scores = ranked.places[rows], ranked.scores[rows]
        reasons = ranked.reasons(places) if ranked.reasons and rows else [()] * len(rows)
        for place, score, because in zip(places.tolist(), scores.tolist(), reasons, strict=True):
            self._items.append(self._item(model, place, score, because))

    def made(self, **fields: Any) -> EdgeList:
        """Return the list, with these fields of it."""
        if self.left:
            self._notes.append(self._shortage())
        for spot, item in sorted(self._new.items()):
            self._items.insert(spot, item)
        nothing = EXPLORED if self._new else ""
        by, used = self._first or (nothing, Ranked(np.zeros(0, np.intp), np.zeros(0), nothing))
        return EdgeList(
            items=tuple(self._items),
            ranked_by=by,
            method=used.method,
            known=used.known,
            as_of=used.as_of,
            reason="; ".join(self._notes),
            **fields,
        )

    def _passes(self, places: Places) -> NDArray[np.bool_]:
        """Return whether each item may be in the list; not one that was met only now."""
        known = places < len(self._blocked)
        blocked = self._blocked[np.where(known, places, 0)]
        return self._allowed.passing(places) & known & ~blocked

    def _item(
        self, by: str, place: int, score: float = 0.0, because: tuple[str, ...] = ()
    ) -> Listed:
        row, self._blocked[place] = self._allowed.row(place), True
        title = row.title or self._titles.get(place, "")
        return Listed(row.item, title, score, tuple(row.categories), because, row.image, by)

    def _shortage(self) -> str:
        count, wish = self._wish.n - self.left, self._wish
        items = "items of the catalogue" if self._allowed.snapshot.rows else "items"
        left = f"{count or 'no'} {items} are left"
        if wish.filter is not None:
            return f"{left} by the filter, without what was seen or excluded"
        if wish.most_per_category is not None:
            return f"{left} with {wish.most_per_category} of a category"
        return f"{left}, without what was seen or excluded"

"""Lists of the edge: what a user is offered, and what goes with an item.

    account, history --> models in the order of falling back --> rules --> picking --> EdgeList

A list is ranked by the model that the wish or the arm of the user names. Where that one has nothing
to rank by, or too few items, the next one goes on: local, own, popular, latest. A list for a
session is made of the items that are sent along, which are kept nowhere.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from producers.edge.catalogue.site_catalogue import Catalogue
from producers.edge.lists.item_index import NOWHERE, ItemIndex
from producers.edge.lists.list_assembly import Making, Step, assembled, explored, mixed
from producers.edge.lists.list_rules import Masks
from producers.edge.lists.models import AskWorkers, Models
from producers.edge.lists.newest_tables import PublicTables
from producers.edge.lists.own_feedback import OwnFeedback
from producers.edge.lists.picking import Room
from producers.edge.lists.stock import Stock
from producers.edge.lists.stored_history import Done, Histories, named
from producers.edge.lists.wishes import MODELS, EdgeList, Wish
from producers.edge.quality.model_figures import arm_of
from producers.edge.site_terms import SiteTerms
from producers.edge.store.database import Database
from producers.ids import normalised
from producers.ranking.clean_history import RatedItem, visit_of
from stream_app import wire
from stream_app.errors import UserError

FALLBACK = ("local", "own", "popular", "latest")
_DAY_SECONDS = 86_400
_PLAIN = Wish()


@dataclass(frozen=True)
class Because:
    """The items of a user's history that speak for an item, the strongest first, by a model."""

    item: str
    by: str
    items: tuple[str, ...]
    reason: str = ""


class ListMaker:
    """Makes lists, from any thread. `start` renews what they are made of; before it, or for tests,
    `stock.renew` does so once.

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
        self._key, self._terms, self._now = database.key, terms, now
        self._histories = Histories(database)
        self._index = ItemIndex()
        self._masks = Masks(catalogue, self._index)
        feedback = OwnFeedback(database, self._index)
        if unknown := [model for model in terms.models if model not in MODELS]:
            raise UserError(
                f"[lists] models: {unknown[0][:32]} is no model; give some of {', '.join(MODELS)}"
            )
        self.models = Models(self._index, tables, feedback, server)
        self.stock = Stock(catalogue, self._index, self.models, now)
        self._random = random or np.random.default_rng()
        self._drawing = threading.Lock()

    def start(self) -> None:
        """Renew statistics in a thread from now on."""
        self.stock.start()

    def stop(self) -> None:
        """End the thread."""
        self.stock.stop()

    def for_user(self, user: str, wish: Wish = _PLAIN) -> EdgeList:
        """Return the list of a user, who need not have an account."""
        name = normalised(user)
        done = self._histories.done_by(name)
        model = wish.model or arm_of(name, self._terms.models, self._key)
        again, seen = self._terms.read_again_days, list(done.seen)
        if again is not None:
            since = 1000 * (self._now() - again * _DAY_SECONDS)
            seen = [item for item, at in done.seen.items() if at > since]
        making = self._making(wish, done, seen)
        share = self._terms.explore
        made = self._made(making, model, self._steps(making, _chain(model)), share)
        return replace(made, account=done.account, asked=wish.model is not None)

    def for_session(
        self, items: Sequence[str | tuple[str, float | None]], wish: Wish = _PLAIN
    ) -> EdgeList:
        """Return a list for items of a visit, oldest first, with stars on 1 .. 5 where there are
        any; it is counted nowhere. Raises UserError for an item that is none, or its stars."""
        day, rated = int(self._now()) // _DAY_SECONDS, dict[str, RatedItem]()
        for number, each in enumerate(items):
            text, stars = (each, None) if isinstance(each, str) else each
            item = normalised(text)
            rated.pop(item, None)
            rated[item] = _of_session(item, stars, day, number)
        done = Done(list(rated.values()), {})
        making = self._making(wish, done, list(rated), visit="now")
        model = wish.model or FALLBACK[0]
        share = self._terms.explore
        return self._made(making, model, self._steps(making, _chain(model)), share)

    def similar(self, item: str, wish: Wish = _PLAIN) -> EdgeList:
        """Return the items that go with one: by the public table, by the edge's own likes, and then
        by the categories that they share with it."""
        text = normalised(item)
        making = self._making(wish, Done([], {}), [text])
        near: list[Step] = [
            (model, partial(self.models.near, model, text)) for model in ("local", "own")
        ]
        near.append(("popular", partial(self.models.of_categories, making.allowed, text)))
        return self._made(making, "local", near)

    def popular(self, wish: Wish = _PLAIN) -> EdgeList:
        """Return what the edge's users like, of all time and lately; then the latest."""
        making = self._making(wish, Done([], {}), ())
        return self._made(making, "popular", self._steps(making, ("popular", "latest")))

    def latest(self, wish: Wish = _PLAIN) -> EdgeList:
        """Return the items that came into the catalogue last."""
        making = self._making(wish, Done([], {}), ())
        return self._made(making, "latest", self._steps(making, ("latest",)))

    def because(self, user: str, item: str) -> Because:
        """Return the items of a user's history that speak for an item."""
        text, done = normalised(item), self._histories.done_by(normalised(user))
        place = self._index.find(text)
        for model in ("local", "own"):
            ranked = self.models.ranked(model, done)
            if isinstance(ranked, str) or ranked.reasons is None:
                continue
            places = ranked.scores.places[ranked.scores.places == place]
            if len(places) and (items := ranked.reasons(places)[0]):
                return Because(text, model, items)
        return Because(text, "", (), "nothing that the user has done speaks for it")

    def _making(
        self, wish: Wish, done: Done, seen: Sequence[str], visit: wire.Visit | None = None
    ) -> Making:
        shelf = self.models.shelf  # it may name items: before the index is counted
        blocked = np.zeros(len(self._index), np.bool_)
        blocked[NOWHERE] = True
        blocked[self._index.places(seen)] = True
        blocked[self._index.places(map(normalised, wish.exclude))] = True
        if shelf is not None:
            blocked[shelf.withdrawn] = True
        now = wire.is_now(wish.visit or visit or visit_of(done.rated, self._now()))
        allowed = self._masks.newest(wish.filter)
        room = Room(wish.most_per_category, allowed.categories)
        return Making(wish, done, now, allowed, blocked, room, shelf)

    def _steps(self, making: Making, models: Sequence[str]) -> list[Step]:
        return [
            (model, partial(self.models.ranked, model, making.done, now=making.now))
            for model in models
        ]

    def _made(
        self, making: Making, model: str, steps: Sequence[Step], explore: float = 0.0
    ) -> EdgeList:
        """Return the list of these steps; `explore`: where the wish does not say."""
        wished = making.wish.explore
        share = explore if wished is None else wished
        with self._drawing:  # a generator is of one thread at a time
            name = self._random.bytes(8).hex()
            new = explored(making, self.stock.new, share, self._random)
        found = assembled(making, steps, list(new.values()))
        return replace(found, id=name, model=model, items=mixed(found.items, new))


def _chain(model: str) -> tuple[str, ...]:
    """Return the model and those to fall back to, in their order."""
    return (model, *(each for each in FALLBACK if each != model))


def _of_session(item: str, stars: float | None, day: int, number: int) -> RatedItem:
    """Return an item of a session, by its number the place in the visit."""
    if stars is not None and not 1 <= stars <= 5:
        raise UserError("session: the stars of an item are outside 1 .. 5")
    try:
        return RatedItem(*named(item), stars, day, number)
    except ValueError:
        raise UserError(
            f"session: item {number + 1} is no item; give text of 1 to {wire.MAX_ITEM_BYTES} bytes"
        ) from None

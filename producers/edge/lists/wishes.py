"""What is asked of a list, and what a list is.

`ranked_by` is the model that made the list, `model` the one that was to make it: they differ where
that one had nothing to rank by, and `reason` says so then. Scores compare within one list, and
within one model of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from producers.edge.catalogue.filters import Filter
from stream_app import wire
from stream_app.errors import UserError

MOST = 100  # items in the longest list
MODELS = ("local", "server", "own", "popular", "latest")  # in the order of falling back
_SHARES = ("diversity", "explore")


@dataclass(frozen=True)
class Wish:
    """What a list is to be.

    n: items. filter: only items that it allows. exclude: items that are left out. visit: what is
    liked at the "next" visit or "now"; None decides by the user's newest event. most_per_category:
    items of one category. diversity: 0 .. 1, how much an item counts for being unlike the ones
    before it; None is 0. explore: 0 .. 1, the share of places for new items; None is the site's for
    a user or a session, else 0.
    model: one of `MODELS`; None is that of the user's arm. because: name the items behind each.

    Raises UserError for a number out of range, and for another model.
    """

    n: int = 10
    filter: Filter | None = None
    exclude: tuple[str, ...] = ()
    visit: wire.Visit | None = None
    most_per_category: int | None = None
    diversity: float | None = None
    explore: float | None = None
    model: str | None = None
    because: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.n <= MOST:
            raise UserError(f"n {self.n}: give 1 to {MOST} items")
        if self.most_per_category is not None and self.most_per_category < 1:
            raise UserError(f"most per category {self.most_per_category}: give 1 or more")
        for name in _SHARES:
            share = getattr(self, name)
            if share is not None and not 0 <= share <= 1:
                raise UserError(f"{name} {share:g}: give a share from 0 to 1")
        if self.visit not in (None, "next", "now"):
            raise UserError("visit: give next or now")
        if self.model is not None and self.model not in MODELS:
            raise UserError(f"model: give one of {', '.join(MODELS)}")


@dataclass(frozen=True)
class EdgeItem:
    """An item of a list; `by`: the model that put it there, or "explore"; `because`: the items of
    the history behind it, the strongest first."""

    item: str
    title: str
    score: float
    categories: tuple[str, ...] = ()
    because: tuple[str, ...] = ()
    image: str | None = None
    by: str = ""


@dataclass(frozen=True)
class EdgeList:
    """A list, best first; `id`: 16 hex digits, by which clicks are counted. `method`: how the model
    ranked. `known` of `rated` items of the history are in its table, which is of cut `as_of`.
    `reason`: why another model ranked, or why the list is shorter; else empty. `account`: whose
    list is counted, 0 for a user without events, None for a list that is not counted; `asked`:
    whether the model was asked for by name."""

    id: str
    items: tuple[EdgeItem, ...]
    ranked_by: str
    model: str
    method: str = ""
    rated: int = 0
    known: int = 0
    as_of: int | None = None
    reason: str = ""
    account: int | None = None
    asked: bool = False

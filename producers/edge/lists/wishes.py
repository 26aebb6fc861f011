"""What is asked of a list, and what a list is.

`ranked_by` is the model that made the list, `model` the one that was to make it: they differ where
that one had nothing to rank by, and `reason` says so then. Scores compare within one list, and
within one model of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from producers.edge.catalogue.filters import Filter
from producers.edge.http.contract.edge_bodies import Listed
from stream_app import wire

MOST = 100  # items in the longest list
MODELS = ("local", "server", "own", "popular", "latest")


@dataclass(frozen=True)
class Wish:
    """What a list is to be; the interface checks the ranges.

    n: items, 1 .. 100. filter: only items that it allows. exclude: items that are left out. visit:
    what is liked at the "next" visit or "now"; None decides by the user's newest event.
    most_per_category: items of one category. diversity: 0 .. 1, how much an item counts for being
    unlike the ones before it. model: one of `MODELS`; None is that of the user's arm.
    """

    n: int = 10
    filter: Filter | None = None
    exclude: tuple[str, ...] = ()
    visit: wire.Visit | None = None
    most_per_category: int | None = None
    diversity: float | None = None
    model: str | None = None


@dataclass(frozen=True)
class EdgeList:
    """A list, best first; `id`: 16 hex digits, by which clicks are counted. `method`: how the model
    ranked. `known` of `rated` items of the history are in its table, which is of cut `as_of`.
    `reason`: why another model ranked, or why the list is shorter; else empty. `account`: whose
    list is counted, 0 for a user without events, None for a list that is not counted; `asked`:
    whether the model was asked for by name."""

    id: str
    items: tuple[Listed, ...]
    ranked_by: str
    model: str
    method: str = ""
    rated: int = 0
    known: int = 0
    as_of: int | None = None
    reason: str = ""
    account: int | None = None
    asked: bool = False

"""The JSON values that an edge takes and gives, beyond those that its parts define."""

from __future__ import annotations

from typing import Any

import msgspec

Name = str | int
"""An id of the site: any text, or an integer, which is its decimal text."""


class Refusal(msgspec.Struct, frozen=True):
    """A request was refused: a sentence for people, a reason for programs. It never repeats a
    value that the client sent."""

    error: str
    reason: str


class RefusedRow(msgspec.Struct, frozen=True):
    """A row, counted from 1, that was not taken; 0: the whole body. Other rows were."""

    row: int
    reason: str
    error: str


class Accepted(msgspec.Struct, frozen=True, omit_defaults=True):
    """How many events are durable now, how many were before, and which are not events; `unlisted`
    counts refused rows beyond those listed. `error` and `reason` where every row was refused."""

    accepted: int
    repeated: int
    refused: list[RefusedRow]
    unlisted: int = 0
    error: str = ""
    reason: str = ""


class Stored(msgspec.Struct, frozen=True, omit_defaults=True):
    """How many items are in the catalogue now as the file has them, what its columns were taken
    for, which were ignored, and which rows were not taken."""

    stored: int
    recognised: dict[str, str]
    ignored: list[str]
    refused: list[RefusedRow]
    unlisted: int = 0
    error: str = ""
    reason: str = ""


class Listed(msgspec.Struct, frozen=True):
    """An item of a list; `because`: what of the user's history is behind it; `by`: the model that
    put it there, or explore."""

    item: str
    title: str
    score: float
    categories: tuple[str, ...]
    because: tuple[str, ...]
    image: str | None
    by: str


class ItemList(msgspec.Struct, frozen=True):
    """A list, best first. `list` is its id: send it with events on what was shown. `ranked_by`: the
    model that ranked, by `method`; `model`: the one that was to; `reason`: why another one ranked,
    or why the list is shorter. `rated`: items of the history; `known`: those in the public table,
    of version `as_of`."""

    list: str
    user: str | None
    items: tuple[Listed, ...]
    ranked_by: str
    model: str
    method: str
    rated: int
    known: int
    as_of: int | None
    reason: str


class Lists(msgspec.Struct, frozen=True):
    """One list for each user, in the order of the request."""

    lists: list[ItemList]


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Lists for several users, or one for a session: its items, which are kept nowhere."""

    users: list[Name] | None = None
    items: list[Name] | None = None
    n: int | None = None
    category: list[str] = []
    not_category: list[str] = []
    filter: str | None = None
    exclude: list[Name] = []
    for_: str | None = msgspec.field(default=None, name="for")
    diversity: float | None = None
    most_per_category: int | None = None
    model: str | None = None


class Removed(msgspec.Struct, frozen=True):
    """Whether there was one to remove."""

    removed: bool


class Alive(msgspec.Struct, frozen=True):
    """The process answers."""

    alive: bool = True


class Ready(msgspec.Struct, frozen=True):
    """Events are taken and lists are made; what is still missing for better ones."""

    ready: bool
    waiting_for: str | None


class Status(msgspec.Struct, frozen=True):
    """What an operator looks at first: counts, what leaves the site, and on what terms."""

    accounts: int
    waiting: int
    reporting: dict[str, Any]
    terms: dict[str, Any]
    lists: dict[str, Any]
    version: str


class Rate(msgspec.Struct, frozen=True):
    """A rate with its 95 % interval."""

    value: float
    low: float
    high: float


class ModelQuality(msgspec.Struct, frozen=True):
    """What the lists of a model brought; `clicked`: lists with a click. MODEL>BY: another one
    ranked; asked:MODEL: it was asked for by name."""

    model: str
    lists: int
    offers: int
    clicked: int
    clicks: int
    purchases: int
    click_through: Rate | None
    ndcg: Rate | None


class Comparison(msgspec.Struct, frozen=True):
    """How much more lists of the first arm bring than those of the second."""

    first: str
    second: str
    click_through: Rate | None
    ndcg: Rate | None


class Quality(msgspec.Struct, frozen=True):
    """What the lists of the last `days` brought, by model, and each arm beside the first one."""

    days: int
    models: list[ModelQuality]
    comparisons: list[Comparison]


class Because(msgspec.Struct, frozen=True):
    """What of a user's history speaks for an item, the strongest first, by a model; `reason`: why
    there is nothing."""

    user: str
    item: str
    by: str
    items: tuple[str, ...]
    reason: str


class Accounts(msgspec.Struct, frozen=True):
    """Accounts: when each was made and what it has spent of its budget."""

    accounts: list[dict[str, Any]]


JsonObject = dict[str, Any]

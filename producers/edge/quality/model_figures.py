"""What lists bring, by model: click-through, purchases, nDCG of what was shown; arms compared.

    click-through   lists with a click of all lists, with Wilson's interval
    nDCG            of lists with a click: the clicked items are what is relevant
                        sum over clicks 1 / log2(place + 2)  /  the same of the first places
    difference      of two arms, over users: users differ more than lists do    (`intervals.py`)
    arm of a user   the model with the largest HMAC-SHA256(key, "murmurec arm" 0 model 0 user)

The arm is rendezvous hashing (Thaler and Ravishankar 1998): every arm has the same share of users,
a model that joins takes its share evenly from the others, and one that leaves moves only its own
users. The key is the store's: nobody else can tell the arm of a user.

Of arms only lists count that nobody asked for by model; a list that another model had to rank
counts for its arm, as it would for a visitor.
"""

from __future__ import annotations

import hmac
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Connection, case, func, select

from producers.edge.quality.impressions import INSTEAD
from producers.edge.quality.intervals import Column, Interval, Ratio, difference, ratio, wilson
from producers.edge.store.database import Database
from producers.edge.store.store_tables import impressions, offers

_ARM = b"murmurec arm\0"


class ModelFigures(NamedTuple):
    """Of the lists of one model: how many lists, offers in them, lists with a click, clicks and
    purchases; None where there is no interval yet."""

    model: str
    lists: int
    offers: int
    clicked: int
    clicks: int
    purchases: int
    click_through: Interval | None
    ndcg: Interval | None


class Comparison(NamedTuple):
    """How much more the first arm brings than the second: None where it is not known."""

    first: str
    second: str
    click_through: Interval | None
    ndcg: Interval | None


class _User(NamedTuple):
    """Of one user's lists of one model."""

    lists: int
    offers: int
    clicked: int
    clicks: int
    purchases: int
    gains: float


def figures(database: Database, since_ms: int = 0) -> list[ModelFigures]:
    """Return the figures of every model whose lists were shown since then."""
    found = _users(database, since_ms)
    return [_of_model(model, users) for model, users in sorted(found.items())]


def compared(database: Database, first: str, second: str, since_ms: int = 0) -> Comparison:
    """Return the difference of two arms."""
    arms: dict[str, list[_User]] = defaultdict(list)
    for model, users in _users(database, since_ms).items():
        arms[model.partition(INSTEAD)[0]] += users
    through, ndcg = (
        difference(of_users(arms[first]), of_users(arms[second]))
        for of_users in (_click_through, _ndcg)
    )
    return Comparison(first, second, through, ndcg)


def _of_model(model: str, users: list[_User]) -> ModelFigures:
    lists, offered, clicked, clicks, bought = (
        int(_column(users, place).sum()) for place in range(5)
    )
    through, ndcg = wilson(clicked, lists), _ndcg(users)
    gain = None if ndcg is None else ndcg.interval
    return ModelFigures(model, lists, offered, clicked, clicks, bought, through, gain)


def _click_through(users: list[_User]) -> Ratio | None:
    return ratio(_column(users, 2), _column(users, 0))


def _ndcg(users: list[_User]) -> Ratio | None:
    clicking = [user for user in users if user.clicked]
    return ratio(_column(clicking, 5), _column(clicking, 2))


def _column(users: list[_User], place: int) -> Column:
    return np.array([user[place] for user in users], np.float64)


def _users(database: Database, since_ms: int) -> dict[str, list[_User]]:
    """Return the users of each model; a list of a user without events is of one of its own."""
    lists, shown = impressions.c, offers.c
    person = case((lists.account == 0, lists.list), else_="")
    each = (
        select(
            lists.model, lists.account, person.label("person"), func.count().label("offers"),
            func.count(shown.clicked).label("clicks"), func.count(shown.bought).label("bought"),
        )
        .join_from(impressions, offers, shown.list == lists.list)
        .where(lists.at >= since_ms)
        .group_by(lists.list, lists.model, lists.account)
        .subquery()
    )  # fmt: skip
    clicked = func.sum(case((each.c.clicks > 0, 1), else_=0))
    of_users = select(
        each.c.model, each.c.account, each.c.person, func.count(), func.sum(each.c.offers),
        clicked, func.sum(each.c.clicks), func.sum(each.c.bought),
    ).group_by(each.c.model, each.c.account, each.c.person)  # fmt: skip
    found = defaultdict[str, list[_User]](list)
    with database.reading() as connection:
        gains = _gains(connection, since_ms, person)
        for model, account, own, *counts in connection.execute(of_users):
            gain = gains.get((model, account, own), 0.0)
            found[model].append(_User._make([*map(int, counts), gain]))
    return found


def _gains(connection: Connection, since_ms: int, person: Any) -> dict[tuple[Any, ...], float]:
    """Return the sum of nDCG over the lists with a click of every user."""
    lists, shown = impressions.c, offers.c
    clicks = (
        select(lists.model, lists.account, person, lists.list, shown.place)
        .join_from(impressions, offers, shown.list == lists.list)
        .where(lists.at >= since_ms, shown.clicked.is_not(None))
    )
    places = defaultdict[tuple[Any, ...], list[int]](list)
    for *user, name, place in connection.execute(clicks):
        places[(*user, name)].append(place)
    found = defaultdict[tuple[Any, ...], float](float)
    for key, clicked in places.items():
        found[key[:3]] += _gain(clicked) / _gain(range(len(clicked)))
    return found


def _gain(places: Any) -> float:
    return float((1 / np.log2(np.array(places) + 2)).sum())


def arm_of(user: str, models: Sequence[str], key: bytes) -> str:
    """Return the model of a user, by the one form of the id; ValueError without a model."""
    if not models:
        raise ValueError("no model: give one or more")
    if len(models) == 1:
        return models[0]
    return max(models, key=lambda model: (_draw(user, model, key), model))


def _draw(user: str, model: str, key: bytes) -> bytes:
    return hmac.digest(key, _ARM + model.encode() + b"\0" + user.encode(), "sha256")

"""What the lists of each model bring: click-through, purchases, nDCG of what was shown; arms.

    click-through   lists with a click of all lists; of h hits in n, with z = 1.96 (Wilson 1927)
                        (p + z^2/2n  -+  z sqrt(p (1 - p)/n + z^2/4n^2)) / (1 + z^2/n)
    nDCG            of lists with a click: the clicked items are what is relevant
                        sum over clicks 1 / log2(place + 2)  /  the same of the first places
    ratio           R = sum y_u / sum n_u over users u, whose lists are not independent:
                        error^2 = U/(U - 1) sum (y_u - R n_u)^2 / (sum n_u)^2   (Cochran 1977, 6.3)
    difference      of two arms, which have different users: R - S  -+  z sqrt of both error^2
    arm of a user   the model with the largest HMAC-SHA256(key, "murmurec arm" 0 model 0 user)

The arm is rendezvous hashing (Thaler and Ravishankar 1998): every arm has the same share of users,
a model that joins takes its share evenly from the others, and one that leaves moves only its own
users. The key is the store's: nobody else can tell the arm of a user.

Of arms only lists count that nobody asked for by model; a list that another model had to rank
counts for its arm, as it would for a visitor.
"""

from __future__ import annotations

import hmac
import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from sqlalchemy import Select, case, func, select

from producers.edge.http.contract.edge_bodies import Comparison, ModelQuality, Quality, Rate
from producers.edge.lists.wishes import MOST
from producers.edge.quality.impressions import INSTEAD
from producers.edge.store.database import Database
from producers.edge.store.store_tables import impressions, offers

_ARM = b"murmurec arm\0"
_DAY_MS = 86_400_000
_Z = 1.959964
_GAINS = [1 / math.log2(place + 2) for place in range(MOST)]


class Ratio(NamedTuple):
    """A ratio over users, and its standard error."""

    value: float
    error: float

    @property
    def interval(self) -> Rate:
        """The normal interval."""
        half = _Z * self.error
        return Rate(self.value, self.value - half, self.value + half)


def wilson(hits: int, trials: int) -> Rate | None:
    """Return the share of hits; None without a trial.

    >>> found = wilson(10, 100)
    >>> round(found.low, 4), round(found.high, 4)
    (0.0552, 0.1744)
    """
    if trials < 1:
        return None
    p, z2 = hits / trials, _Z**2 / trials
    half = _Z * (p * (1 - p) / trials + z2 / (4 * trials)) ** 0.5
    low, high = ((p + z2 / 2 + sign * half) / (1 + z2) for sign in (-1, 1))
    return Rate(p, max(low, 0.0), min(high, 1.0))


def ratio(users: float, y: float, n: float, yy: float, yn: float, nn: float) -> Ratio | None:
    """Return the ratio by the sums over users of y, n and their products; None for fewer than two
    users."""
    if users < 2 or n <= 0:
        return None
    value = y / n
    squares = max(yy - 2 * value * yn + value**2 * nn, 0.0)
    return Ratio(value, (users / (users - 1) * squares) ** 0.5 / n)


def difference(first: Ratio | None, second: Ratio | None) -> Rate | None:
    """Return the first minus the second; None where one is not known."""
    if first is None or second is None:
        return None
    error = (first.error**2 + second.error**2) ** 0.5
    return Ratio(first.value - second.value, error).interval


class _Sums(NamedTuple):
    """Over the users of a model: counts, and products of lists l, those with a click c, and the
    nDCG g of these. A list of a user without events is of one of its own."""

    users: float
    lists: float
    offers: float
    clicked: float
    clicks: float
    purchases: float
    gains: float
    ll: float
    cl: float
    cc: float
    clicking: float
    gg: float
    gc: float

    @property
    def click_through(self) -> Ratio | None:
        return ratio(self.users, self.clicked, self.lists, self.cc, self.cl, self.ll)

    @property
    def ndcg(self) -> Ratio | None:
        return ratio(self.clicking, self.gains, self.clicked, self.gg, self.gc, self.cc)


def quality(database: Database, models: Sequence[str], now_ms: int, days: int = 30) -> Quality:
    """Return the figures of every model, and each of the arms `models` beside the first one."""
    with database.reading() as connection:
        rows = connection.execute(_wanted(now_ms - days * _DAY_MS)).all()
    found = {model: _Sums(*(float(each or 0) for each in row)) for model, *row in rows}
    arms = dict[str, _Sums]()
    for model, sums in found.items():
        arm = model.partition(INSTEAD)[0]
        arms[arm] = _Sums(*map(sum, zip(sums, arms.get(arm, [0.0] * len(sums)), strict=True)))
    compared = [_compared(arms, models[0], each) for each in models[1:]]
    return Quality(days, [_figures(*each) for each in sorted(found.items())], compared)


def _figures(model: str, sums: _Sums) -> ModelQuality:
    lists, offered, clicked, clicks, bought = map(int, sums[1:6])
    through, ndcg = wilson(clicked, lists), sums.ndcg
    gain = ndcg.interval if ndcg else None
    return ModelQuality(model, lists, offered, clicked, clicks, bought, through, gain)


def _compared(arms: dict[str, _Sums], first: str, second: str) -> Comparison:
    if first not in arms or second not in arms:
        return Comparison(first, second, None, None)
    one, other = arms[first], arms[second]
    through = difference(one.click_through, other.click_through)
    return Comparison(first, second, through, difference(one.ndcg, other.ndcg))


def _wanted(since_ms: int) -> Select[Any]:
    """Return the query: lists, then users, then the sums of a model."""
    lists, shown = impressions.c, offers.c
    count, total = func.count, func.sum
    gain = case(dict(enumerate(_GAINS)), value=shown.place)
    ideal = case(dict(enumerate(accumulate(_GAINS), 1)), value=count(shown.clicked), else_=1.0)
    person = case((lists.account == 0, lists.list), else_="")
    each = (
        select(
            lists.model, lists.account, person.label("own"),
            count().label("offers"), count(shown.clicked).label("clicks"),
            count(shown.bought).label("bought"),
            case((count(shown.clicked) > 0, 1), else_=0).label("clicked"),
            (total(case((shown.clicked.is_not(None), gain), else_=0.0)) / ideal).label("gain"),
        )
        .join_from(impressions, offers, shown.list == lists.list)
        .where(lists.at >= since_ms)
        .group_by(lists.list, lists.model, lists.account)
        .subquery().c
    )  # fmt: skip
    user = (
        select(
            each.model, count().label("lists"), total(each.offers).label("offers"),
            total(each.clicked).label("clicked"), total(each.clicks).label("clicks"),
            total(each.bought).label("bought"), total(each.gain).label("gain"),
        )
        .group_by(each.model, each.account, each.own)
        .subquery().c
    )  # fmt: skip
    sums = (
        user.lists, user.offers, user.clicked, user.clicks, user.bought, user.gain,
        user.lists * user.lists, user.clicked * user.lists, user.clicked * user.clicked,
        case((user.clicked > 0, 1), else_=0), user.gain * user.gain, user.gain * user.clicked,
    )  # fmt: skip
    return select(user.model, count(), *map(total, sums)).group_by(user.model)


def arm_of(user: str, models: Sequence[str], key: bytes) -> str:
    """Return the model of a user; ValueError without a model."""
    if not models:
        raise ValueError("no model: give one or more")

    def drawn(model: str) -> tuple[bytes, str]:
        text = _ARM + model.encode() + b"\0" + user.encode()
        return hmac.digest(key, text, "sha256"), model

    return max(models, key=drawn)

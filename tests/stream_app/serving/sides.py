"""Recommenders that have derived an item side from devices of two tastes."""

from __future__ import annotations

from dataclasses import replace

from stream_app.serving.catalogue import Catalogue
from stream_app.serving.ingredients import Ingredients
from stream_app.serving.recommender import Recommender
from stream_app.serving.served_side import ServedSide
from stream_app.serving.standing import Standing
from stream_app.state.replica import Replica
from stream_app.state.spec import StateSpec
from tests.fixtures.clusters import DESIGN, learned, tastes

CO_RATED = replace(DESIGN, co_ratings=True)


def trained(
    devices: int = 80,
    each: int = 5,
    index: str = "exact",
    catalogue: Catalogue | None = None,
    spec: StateSpec = DESIGN,
    listed_by: str | None = None,
) -> Recommender:
    """Return a recommender without an item side, after one event of each device."""
    replica = Replica(spec)
    for event in tastes(devices, each):
        learned(replica, event)
    replica.end_round(1, replica.end_offsets)
    return Recommender(replica, catalogue or Catalogue(), index, listed_by=listed_by)


def derived(recommender: Recommender) -> ServedSide:
    """Derive the item side of the state as it is now, and adopt it."""
    ingredients = Ingredients.taken_from(recommender.replica, recommender.listed_by)
    assert ingredients is not None
    served = ingredients.derived(recommender.side, recommender.index_name, 64, 1, recommender.level)
    recommender.adopt(served)
    return served


def serving(method: str, index: str = "exact", catalogue: Catalogue | None = None) -> Recommender:
    """Return a recommender that ranks by `method`, as if it had been measured to be the best."""
    recommender = trained(index=index, catalogue=catalogue)
    derived(recommender)
    recommender.standing = Standing(method, ndcg={"popular": 0.09, method: 0.12345})
    return recommender

"""Recommenders that have derived an item side from devices of two tastes."""

from __future__ import annotations

from dataclasses import replace

from stream_app.ranking.scores import DEFAULT, Column, Components
from stream_app.serving.catalogue import Catalogue
from stream_app.serving.recommender import Recommender
from stream_app.serving.served_side import Ingredients, ServedMethod, ServedSide
from stream_app.state.replica import Replica
from stream_app.state.spec import StateSpec
from tests.fixtures.clusters import DESIGN, learned, tastes

LEARNED = 8 * DEFAULT
LEARNED[Components._fields.index("popularity")] = 0.1


def trained(
    devices: int = 80,
    each: int = 5,
    catalogue: Catalogue | None = None,
    spec: StateSpec = DESIGN,
) -> Recommender:
    """Return a recommender without an item side, after one event of each device."""
    replica = Replica(spec)
    for event in tastes(devices, each):
        learned(replica, event)
    replica.end_round(1, replica.end_offsets)
    return Recommender(replica, catalogue or Catalogue(), "exact")


def derived(recommender: Recommender) -> ServedSide:
    """Derive the item side of the state as it is now, and adopt it."""
    ingredients = Ingredients.taken_from(recommender.replica)
    assert ingredients is not None
    previous = recommender.served.derived if recommender.served else None
    served = ingredients.derived(previous)
    recommender.adopt(served)
    return served


def serving(basis: str = "links", catalogue: Catalogue | None = None) -> Recommender:
    """Return a recommender whose lists are of this basis, with a measurement as if there had been
    one; `learned`: by weights that a derivation did not find."""
    recommender = trained(catalogue=catalogue)
    served = derived(recommender)
    if basis == "learned":
        recommender.adopt(weighted(served, LEARNED))
    recommender.standing = ServedMethod(0.1235, 0.09, "", basis)
    return recommender


def weighted(served: ServedSide, weights: Column) -> ServedSide:
    """Return the same side with these weights for the next visit."""
    side = replace(served.side, next_weights=weights)
    return ServedSide(served.derived._replace(side=side), served.channel)

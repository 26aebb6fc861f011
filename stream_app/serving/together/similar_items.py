"""Items near to one, for no user: from the co-ratings, else from the links of the item side.

    cosine   s_jk = c_jk / sqrt((n_j + beta) (n_k + beta)), who rated both      (`co_rated.py`)
    ease     the links of the item side, a history of that item alone           (`ranking/ease.py`)

Only items with a positive weight are listed, none of them withdrawn;
the scores shown are the predicted ratings of the average user. The reply's cut is that of what it
is made from.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.ranking.similarity import COSINE
from stream_app.ranking.similarity.nearest import linked_to
from stream_app.serving.ranked_items import RankedItems, Refused
from stream_app.serving.recommender import Recommender
from stream_app.serving.served_side import ServedSide
from stream_app.serving.together.co_rated import CoRated
from stream_app.wire import Item, key

NO_PAIRS = "items near to one are not served: no pairs of items are counted (head_items)"
NOTHING_YET = (
    "what goes together is not known yet: a worker works it out once 100 ratings have come; ask "
    "again then"
)
UNKNOWN = "similar_to: no rating of this item has come, and the catalogue has no entry of it"
OUTSIDE = "similar_to: the item is not among the most rated ones of which pairs are counted"
WITHDRAWN = "similar_to: the item is withdrawn"


class _Near(NamedTuple):
    """Keys of items, best first, the method that found them, and its cut."""

    keys: NDArray[np.uint64]
    method: str
    as_of: int


def similar_items(recommender: Recommender, item: Item, count: int) -> RankedItems | Refused:
    """Return at most `count` items near to one, best first, or why there are none."""
    replica, catalogue, served = recommender.replica, recommender.catalogue, recommender.served
    item_key = key(item)
    wanted = np.array([item_key], np.uint64)
    if not replica.spec.head_items:
        return Refused(NO_PAIRS)
    if catalogue.withdrawn(wanted)[0]:
        return Refused(WITHDRAWN)
    if replica.items.rows(wanted)[0] < 0 and item_key not in catalogue.entries:
        return Refused(UNKNOWN)
    if served is None:
        return Refused(NOTHING_YET)
    near = _by_co_ratings(served.co_rated, wanted) or _by_links(served, wanted)
    if near is None:
        return Refused(OUTSIDE)
    shown = (replica.items.rows(near.keys) >= 0) & ~catalogue.withdrawn(near.keys)
    keys = near.keys[shown][:count]
    return RankedItems(keys, _ratings(recommender, keys), near.method, near.as_of)


def _by_co_ratings(table: CoRated | None, wanted: NDArray[np.uint64]) -> _Near | None:
    slot = -1 if table is None else int(table.slots_of(wanted)[0])
    if table is None or slot < 0:
        return None
    return _Near(table.keys[table.near(slot)], COSINE, table.version)


def _by_links(served: ServedSide, wanted: NDArray[np.uint64]) -> _Near | None:
    slots, known = served.slots_of(wanted)
    if not known[0]:
        return None
    side = served.side
    return _Near(side.keys[linked_to(side, int(slots[0]))], "ease", side.version)


def _ratings(recommender: Recommender, keys: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return what the average user is predicted to rate, 1 .. 5."""
    learner = recommender.replica.learner
    _, biases = learner.items(keys)
    return np.clip(learner.mean + biases.astype(np.float64), 1, 5)

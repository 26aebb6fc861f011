"""Items near to one, for no user: the links of the item side, a history of that item alone.

Only items with a positive weight are listed, none of them withdrawn; the scores shown are the
predicted ratings of the average user. The reply's cut is that of the item side.
"""

from __future__ import annotations

import numpy as np

from stream_app.ranking.scores import linked_to
from stream_app.serving.ranked_items import RankedItems, Refused
from stream_app.serving.recommender import Recommender
from stream_app.wire import Item, key

NO_PAIRS = "items near to one are not served: no pairs of items are counted (head_items)"
NOTHING_YET = (
    "what goes together is not known yet: a worker works it out once 100 ratings have come; ask "
    "again then"
)
UNKNOWN = "similar_to: no rating of this item has come, and the catalogue has no entry of it"
OUTSIDE = "similar_to: the item is not among the most rated ones of which pairs are counted"
WITHDRAWN = "similar_to: the item is withdrawn"


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
    slots, known = served.slots_of(wanted)
    if not known[0]:
        return Refused(OUTSIDE)
    near = served.side.keys[linked_to(served.side, int(slots[0]))]
    shown = (replica.items.rows(near) >= 0) & ~catalogue.withdrawn(near)
    keys = near[shown][:count]
    _, biases = replica.learner.items(keys)
    ratings = np.clip(replica.learner.mean + biases.astype(np.float64), 1, 5)
    return RankedItems(keys, ratings, "ease", served.side.version)

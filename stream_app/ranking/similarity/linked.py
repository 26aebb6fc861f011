"""Items near to one by the links of an item side, where no co-ratings are kept.

The list for a history of that one item by `ease`: the items of its largest positive links, which
say what goes with it beyond what goes with everything (`ranking/ease.py`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.ranking.item_side import ItemSide
from stream_app.ranking.similarity import nearest


def linked_to(side: ItemSide, slot: int) -> NDArray[np.int64]:
    """Return the slots of all items to which `slot` has a positive link, strongest first; never the
    item itself."""
    weights = np.zeros(len(side), np.float32)
    np.add.at(weights, side.link_targets[slot], side.link_weights[slot])
    weights[slot] = 0
    return nearest.best_slots(weights, len(weights), nearest.ties(side.keys), weights > 0)

"""The lists of the tested users, as a deployment of murmurec makes them.

    device    the device's own clean history, ranked by the item side as it is published
    server    the reply to the device's query, without what its user has rated

Both are called in one place each. A device of which only the newest ratings are known is one that
has rated nothing else; all that its user has rated stays out of the list, as of every other one.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from murmurec.learned_server import LearnedServer
from producers.ranking.ranker import Ranker, Rated
from stream_app.evaluation.ranking import RankingTask
from stream_app.ranking.compact_side import decode_side, encode_side
from stream_app.wire import EPOCH_SECONDS, LIST_LENGTH

Lists = NDArray[np.intp]


def own_histories(
    task: RankingTask, stars: NDArray[np.float64], times: NDArray[np.int64] | None
) -> list[Rated]:
    """Return what the device of each tested user holds; stars (n,) of the learned ratings on 1 ..
    5, times (n,) in seconds, None where the order says nothing."""
    histories = []
    for rows in task.learned_rows():
        items = task.items[task.learned.items[rows]]
        own = Rated.untimed(items.tolist(), stars[rows].tolist())
        if times is not None:
            own = own._replace(days=times[rows] // EPOCH_SECONDS, places=times[rows])
        histories.append(own)
    return histories


def device_lists(
    server: LearnedServer,
    task: RankingTask,
    histories: list[Rated],
    k: int,
    *,
    now: bool = False,
    most: int | None = None,
) -> Lists:
    """Return the lists (t, k) that devices make of what is liked next, at a later visit or `now`;
    `most`: ratings, the newest, that they know."""
    served = server.recommender.served
    assert served is not None
    ranker = Ranker(decode_side(encode_side(served.side)))
    lists = np.full((len(histories), k), -1, np.intp)
    for place, whole in enumerate(histories):
        first = 0 if most is None else max(len(whole.items) - most, 0)
        own = Rated._make(column[first:] for column in whole)
        found = ranker.rank(own, k, now=now, excluded=whole.items)
        keys = np.array([each.item for each in found], np.uint64)
        lists[place, : len(keys)] = np.searchsorted(task.items, keys)
    return lists


def server_lists(
    server: LearnedServer, task: RankingTask, k: int, *, now: bool = False
) -> tuple[str, Lists]:
    """Return the lists (t, k) of the server's replies, and the method that made most of them."""
    lists, methods = np.full((len(task.tested), k), -1, np.intp), Counter[str]()
    for place, user in enumerate(task.users[task.tested].tolist()):
        device = np.array([user, 0], "<u8").tobytes()
        reply = server.recommender.answer(device, LIST_LENGTH, now=now)
        found = np.searchsorted(task.items, reply.items)
        found = found[~np.isin(found, task.history.of_user(place)[0])][:k]
        lists[place, : len(found)] = found
        methods[reply.method] += 1
    return methods.most_common(1)[0][0], lists

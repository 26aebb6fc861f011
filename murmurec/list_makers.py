"""The lists of the tested users, as a server and as a device of murmurec make them.

    server    what its state knows of the device's history, ranked by every method
    device    the device's own clean history, ranked by the item side as it is published

A device leaves out what its user has rated from both. Without `in_order` the order of the history
is taken as unknown: no recency, and nothing follows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from murmurec.learned_server import LearnedServer
from producers.ranking.ranker import Ranker
from stream_app.evaluation.ranking import RankingTask, Way
from stream_app.ranking.compact_side import decode_side, encode_side
from stream_app.ranking.online_choice import METHODS
from stream_app.ranking.scores import top_slots
from stream_app.serving.head_lists import scores_by

Lists = NDArray[np.intp]


def device_lists(
    server: LearnedServer,
    task: RankingTask,
    stars: NDArray[np.float64],
    k: int,
    in_order: bool,
) -> list[Way]:
    """Return the lists that devices make; stars (n,): the learned ratings on 1 .. 5."""
    served = server.recommender.served
    assert served is not None
    ranker = Ranker(decode_side(encode_side(served.side)))
    own = task.learned_rows()
    lists = np.full((len(task.tested), k), -1, np.intp)
    for place, rows in enumerate(own):
        items = task.items[task.learned.items[rows]]
        found = ranker.rank(items.tolist(), stars[rows].tolist(), k, in_order=in_order)
        keys = np.array([each.item for each in found], np.uint64)
        lists[place, : len(keys)] = np.searchsorted(task.items, keys)
    history = "clean, by recency" if in_order else "clean"
    return [Way("blend", "device", history, lists)]


def server_lists(server: LearnedServer, task: RankingTask, k: int, in_order: bool) -> list[Way]:
    """Return the lists that the server makes by each method, the one that serves first."""
    recommender = server.recommender
    served, standing = recommender.served, recommender.standing
    assert served is not None
    names = sorted(METHODS, key=lambda name: name != standing.method)
    lists = {name: np.full((len(task.tested), k), -1, np.intp) for name in names}
    places = np.searchsorted(task.items, served.side.keys)
    vectors, biases = server.replica.learner.users(task.users[task.tested])
    for place, user in enumerate(task.users[task.tested].tolist()):
        device = np.array([user, 0], "<u8").tobytes()
        history = recommender.history(device, served)
        if not in_order:
            history = history._replace(ages=None)
        components, _ = served.components(history, vectors[place], float(biases[place]))
        seen = np.zeros(len(task.items), np.bool_)
        seen[task.history.of_user(place)[0]] = True
        allowed = ~seen[places]
        for name in names:
            method = name if len(history.slots) else METHODS[0]
            slots = top_slots(scores_by(method, components, standing.weights), k, allowed)
            lists[name][place, : len(slots)] = places[slots]
    known = "reports, by arrival" if in_order else "reports"
    return [Way(name, "server", known, lists[name]) for name in names]

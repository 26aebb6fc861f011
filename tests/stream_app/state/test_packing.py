"""The same visits, however a device packs them, leave the same lists."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.ranking.derivation import derive
from stream_app.ranking.histories import History
from stream_app.ranking.scores import COUNT, score
from stream_app.state.replica import Replica
from stream_app.wire import Event
from tests.fixtures.clusters import DESIGN, device_of
from tests.fixtures.replicas import applied

ITEMS, DEVICES = 20, 3
SPEC = replace(DESIGN, head_items=ITEMS, recent_items=64)
Visits = list[tuple[int, dict[int, int]]]  # device, the level of each item of a day
WEIGHTS = np.linspace(1, 2, 2 * COUNT, dtype=np.float32)

VISITS = st.lists(
    st.tuples(
        st.integers(0, DEVICES - 1),
        st.dictionaries(st.integers(0, ITEMS - 1), st.integers(0, 4), min_size=1, max_size=6),
    ),
    min_size=2,
    max_size=7,
)


def packed(visits: Visits, data: st.DataObject, *, alone: bool) -> Replica:
    """Return a replica after visits in any order of each and any chunks of at least two, but for a
    rest of one; or one by one. Each item is rated once by a device."""
    replica, seqs = Replica(SPEC), dict.fromkeys(range(DEVICES), 0)
    had: set[tuple[int, int]] = set()
    for day, (device, levels) in enumerate(visits, 1):
        order = data.draw(st.permutations([i for i in levels if (device, i) not in had]))
        had |= {(device, item) for item in order}
        while order:
            size = 1 if alone else data.draw(st.integers(min(2, len(order)), len(order)))
            items, order = order[:size], order[size:]
            seqs[device] += 1
            reports = np.array([levels[item] for item in items], np.uint8)
            keys = np.array(items, np.uint64)
            applied(
                replica,
                Event(device_of(device), seqs[device], "none:5:inf", day, keys, reports),
            )
    return replica


def histories(replica: Replica) -> list[dict[int, tuple[float, int]]]:
    """Return weight and visit of each item of each device."""
    found = []
    for device in range(DEVICES):
        keys, weights, ago, _ = replica.history(device_of(device))
        found.append(
            {int(k): (float(w), int(a)) for k, w, a in zip(keys, weights, ago, strict=True)}
        )
    return found


@settings(max_examples=12, deadline=None)
@given(VISITS, st.data())
def test_any_packing_leaves_the_same_tables_between_visits_histories_and_lists(
    visits: Visits, data: st.DataObject
) -> None:
    """One by one, too, but for the table within a visit and the ages that it reads."""
    replicas = [packed(visits, data, alone=alone) for alone in (False, False, True)]
    first = histories(replicas[0])
    assert all(histories(replica) == first for replica in replicas[1:])
    found = []
    for replica in replicas:
        counts = replica.pair_snapshot().counts()
        assert counts is not None
        order = np.argsort(counts.keys)
        between = np.zeros((0, 0)) if counts.between is None else counts.between
        table = between[np.ix_(order, order)] if between.size else between
        side = derive(counts._replace(within=None), np.full(len(order), 3, np.float32)).side
        side = replace(side, next_weights=WEIGHTS)
        scores = []
        for device in range(DEVICES):
            keys, weights, ago, ages = replica.history(device_of(device))
            slots = np.array([counts.keys.tolist().index(key) for key in keys.tolist()], np.intp)
            same = np.zeros_like(ages)
            scores.append(score(side, History(slots, weights, ago, same))[order])
        assert np.isfinite(scores).all()
        found.append((table, counts.keys[order], np.array(scores)))
    for table, keys, scores in found[1:]:
        assert table.tolist() == found[0][0].tolist()
        assert keys.tolist() == found[0][1].tolist()
        assert np.allclose(scores, found[0][2], atol=1e-3)

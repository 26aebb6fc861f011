"""Divides a state by device: each shard begins with what its own devices have sent.

    marks, recent items and visits    of the shard's devices alone, in their order
    users of the learner              without those of the other shards, whose rows are free
    seen filter                       whole: bits of a Bloom filter cannot be told apart
    all else                          whole: what was learned of items, counts, erased devices

A device is in the shard of its partition. A user that the state cannot list, since its device was
evicted, stays in every shard.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.cooccurrence.device_lists import LAST, RING
from stream_app.kernels.stream.deduplication import FIRST, FREE, HAND, LEFT
from stream_app.models.cooccurrence.pair_base import TABLES
from stream_app.models.factorization.hybrid import HybridLearner
from stream_app.state.replica import Replica
from stream_app.state.spec import StateSpec
from stream_app.wire.ids import partitions_of
from stream_app.wire.state_records import StateOrigin

Arrays = Mapping[str, NDArray[Any]]
_BY_DEVICE = "devices", "marks", "days", "digests"
_LISTS = "rated_lists", "reported_lists"


def undivided(spec: StateSpec) -> StateSpec:
    """Return the specification of the state of which that of a shard is a part."""
    return replace(spec, shards=1, shard=0)


def shards_of(devices: NDArray[np.uint64], spec: StateSpec) -> NDArray[np.int64]:
    """Return the shard of each of (n, 2) devices."""
    text = np.ascontiguousarray(devices, "<u8").tobytes().hex().encode()
    keys = np.frombuffer(text, np.uint8).reshape(-1, 32)
    return partitions_of(keys, spec.partitions) % spec.shards


def adopt_share(
    replica: Replica,
    model: Arrays,
    ledger: Arrays,
    origin: StateOrigin,
    homes: NDArray[np.int64] | None = None,
) -> None:
    """Start a new replica of a shard at `origin` from its share of the arrays of an undivided
    state. homes (devices,): `shards_of` its devices, None: not known yet.

    Nothing of it counts as not exchanged: every shard begins with the same items. Raises ValueError
    as `Replica.adopt`.
    """
    devices, spec = model["marks.devices"], replica.spec
    known = model["marks.days"] > 0
    own = (shards_of(devices, spec) if homes is None else homes) == spec.shard
    rows = np.flatnonzero(known & own)
    empty = replica.model_arrays()
    share = dict(empty) | dict(model)
    share["learner.vectors"] = empty["learner.vectors"]  # few are kept: `drop` takes those
    share |= _marks_of(model, rows)
    for name in _LISTS:
        if f"{name}.ends" in model:
            share |= _lists_of(model, name, rows)
    share |= _base_of(model)
    replica.adopt(share, ledger, origin)
    assert isinstance(replica.learner, HybridLearner)
    replica.learner.drop(devices[known & ~own, 0], devices[rows, 0], model["learner.vectors"])
    assert replica.shared is not None
    replica.shared.rows.begin_with(replica.learner, replica.items.keys)


def _base_of(model: Arrays) -> dict[str, NDArray[Any]]:
    """Return the bases of all that is counted: what the state holds is merged. Tables of pairs are
    in the base alone (`models/cooccurrence/pair_base.py`)."""
    found = {"shared.reports": model["items.reports"]}
    copied = {"frequencies.": "shared_frequencies.", "second_moment.": "shared_second_moment."}
    for feed in ("rated", "reported"):
        copied[f"{feed}_moments."] = f"{feed}_base_sums."
        if f"{feed}_head.counts" in model:
            found[f"{feed}_base.counts"] = model[f"{feed}_head.counts"]
    for name, array in model.items():
        part, dot, key = name.partition(".")
        if part + dot in copied:
            found[copied[part + dot] + key] = array
            if key in TABLES:
                found[name] = np.zeros_like(array)
    return found


def _marks_of(model: Arrays, rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """Return the high-water marks of devices (rows), none of them free."""
    found = {f"marks.{name}": model[f"marks.{name}"][rows] for name in _BY_DEVICE}
    numbers = model["marks.numbers"].copy()
    numbers[[HAND, FIRST, FREE]] = 0
    # The hand passes every row again where it had some left: who is stale does not change.
    numbers[LEFT] = len(rows) if numbers[LEFT] else 0
    return found | {"marks.numbers": numbers}


def _lists_of(model: Arrays, name: str, rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """Return the lists of devices (rows), their blocks in the order of the devices and of each
    ring."""
    links, blocks = model[f"{name}.links"], model[f"{name}.blocks"]
    ends = model[f"{name}.ends"][rows]
    sizes, place = ends[:, RING].astype(np.int64), ends[:, LAST].astype(np.int64)
    first = np.cumsum(sizes) - sizes
    total = int(sizes.sum())
    order, following = np.empty(total, np.int64), np.empty(total, np.int32)
    for n in range(int(sizes.max(initial=0))):
        longer = np.flatnonzero(sizes > n)
        place[longer] = links[place[longer]]
        order[first[longer] + n] = place[longer]
        following[first[longer] + n] = first[longer] + (n + 1) % sizes[longer]
    ends[:, LAST] = np.where(sizes > 0, first + sizes - 1, 0)
    found = {"ends": ends, "blocks": blocks[order], "links": following}
    found |= {key: model[f"{name}.{key}"][rows] for key in ("visits", "likes")
              if f"{name}.{key}" in model}  # fmt: skip
    return {f"{name}.{key}": a for key, a in found.items()} | {
        f"{name}.free": np.zeros(2, np.int32)
    }

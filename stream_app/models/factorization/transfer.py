"""Moves what a learner knows of entities to a learner of other tables.

    old tables --users(keys), items(keys)--> vectors, biases, variances by key --> new tables

Keys come from outside: a table of tags cannot list its entities. Rows are given out in the order of
the keys, items before users, so that a smaller table keeps the items. A sketch is read like any
other learner but not written: its cells are sums that cannot be entered entity by entity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.factorization.bias_table import BIAS, slot_of, tag_of
from stream_app.kernels.factorization.hybrid_rows import NOWHERE, prepare
from stream_app.kernels.machine.scalars import hash64
from stream_app.models.factorization.dense import DenseLearner
from stream_app.models.factorization.hybrid import HybridLearner
from stream_app.models.factorization.learner import ITEM, USER, Learner

_SIDES = {ITEM: "item", USER: "user"}
_WORD = 2**64 - 1
Keys = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Known:
    """What a learner knows of the entities of one side: keys (n,), vectors (n, d), and scalars
    (n, 3): bias, variances of bias and vector as shares."""

    keys: Keys
    vectors: NDArray[np.float32]
    scalars: NDArray[np.float32]


@dataclass(frozen=True)
class Moved:
    """Entities that were entered, and of these the ones with a vector of their own."""

    entities: int
    vectors: int


def known_of(learner: Learner, keys: Keys, side: int) -> Known:
    """Return what a learner knows of the given keys (distinct), without those it does not know."""
    scalars = _scalars(learner, keys, side)
    known = ~np.isnan(scalars[:, BIAS])
    keys, scalars = keys[known], scalars[known]
    vectors, biases = learner.users(keys) if side == USER else learner.items(keys)
    scalars[:, BIAS] = biases
    return Known(keys, vectors, scalars)


def _scalars(learner: Learner, keys: Keys, side: int) -> NDArray[np.float32]:
    """Return the scalars of each key (n, 3), NaN for an unknown entity."""
    arrays: dict[str, NDArray[Any]] = learner.arrays()
    found = np.full((len(keys), 3), np.nan, np.float32)
    if isinstance(learner, DenseLearner):
        name = _SIDES[side]
        rows = {key: row for row, key in enumerate(arrays[f"{name}_keys"].tolist())}
        places = np.array([rows.get(key, -1) for key in keys.tolist()], np.int64)
        found[places >= 0] = arrays[f"{name}_scalars"][places[places >= 0]]
        return found
    if "tags" not in arrays:
        return found
    tags, salt = arrays["tags"], int(learner._seeds[side])  # type: ignore[attr-defined]
    for i, key in enumerate(keys.tolist()):
        h = _hash(key, salt)
        slot = int(slot_of(tags, h))
        if tags[slot] == tag_of(h):
            found[i] = arrays["scalars"][slot]
    return found


def _hash(key: int, salt: int) -> np.uint64:
    """Return the hash of a key; as a Python number numba would take it for a signed one."""
    return np.uint64(hash64(np.uint64((key + salt) & _WORD)))


def enter(learner: Learner, found: dict[int, Known], overall: NDArray[Any]) -> Moved | None:
    """Fill an untrained learner with what another one knew; None for one that cannot be filled.

    Vectors of another length are left at their first values; biases count all the same.
    """
    if isinstance(learner, DenseLearner):
        moved = _enter_dense(learner, found, overall)
    elif isinstance(learner, HybridLearner):
        moved = _enter_hybrid(learner, found, overall)
    else:
        return None
    return moved


def _enter_dense(learner: DenseLearner, found: dict[int, Known], overall: NDArray[Any]) -> Moved:
    arrays: dict[str, NDArray[Any]] = {"overall": overall}
    entities = 0
    for side, name in _SIDES.items():
        known = found[side]
        vectors = _vectors(learner, known, side)
        arrays |= {
            f"{name}_keys": known.keys,
            f"{name}_vectors": vectors.reshape(-1),
            f"{name}_scalars": known.scalars,
        }
        entities += len(known.keys)
    learner.load(arrays)
    return Moved(entities, entities)


def _vectors(learner: DenseLearner, known: Known, side: int) -> NDArray[np.float32]:
    if known.vectors.shape[1] == learner.factors:
        return known.vectors
    return learner.users(known.keys)[0] if side == USER else learner.items(known.keys)[0]


def _enter_hybrid(learner: HybridLearner, found: dict[int, Known], overall: NDArray[Any]) -> Moved:
    arrays = {name: array.copy() for name, array in learner.arrays().items()}
    arrays["overall"][:] = overall
    entities = 0
    for side in (ITEM, USER):
        known = found[side]
        salt, scale = int(learner._seeds[side]), learner._scales[side]
        for i, key in enumerate(known.keys.tolist()):
            h = _hash(key, salt)
            vector = known.vectors[i] if known.vectors.shape[1] == learner.factors else None
            entities += _enter_row(
                arrays, h, vector, known.scalars[i], learner.rows, learner.factors, scale
            )
    learner.load(arrays)
    return Moved(entities, int(arrays["given"][0]))


def _enter_row(
    arrays: dict[str, NDArray[Any]],
    h: np.uint64,
    vector: NDArray[np.float32] | None,
    scalars: NDArray[np.float32],
    rows: int,
    factors: int,
    scale: float,
) -> bool:
    """Enter one entity, in a row of its own while there are any; return False where its slot is
    taken by another one."""
    tags, given, cells = arrays["tags"], arrays["given"], arrays["vectors"]
    slot = int(slot_of(tags, h))
    if tags[slot] != 0:
        return False
    tags[slot] = tag_of(h)
    arrays["scalars"][slot] = scalars
    if given[0] < rows:
        first = int(given[0]) * factors
        if vector is None:
            prepare(cells, NOWHERE, np.uint64(0), h, scale, factors, cells, first)
        else:
            cells[first : first + factors] = vector
        given[0] += 1
        arrays["owners"][slot] = given[0]
    return True

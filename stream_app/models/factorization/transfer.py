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

from stream_app.kernels.factorization.bias_table import BIAS
from stream_app.models.factorization.hybrid import HybridLearner
from stream_app.models.factorization.learner import ITEM, USER, ServedLearner

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


def known_of(learner: ServedLearner, keys: Keys, side: int) -> Known:
    """Return what a learner knows of the given keys (distinct), without those it does not know."""
    scalars = learner.scalars_of(keys, side)
    known = ~np.isnan(scalars[:, BIAS])
    keys, scalars = keys[known], scalars[known]
    vectors, biases = learner.users(keys) if side == USER else learner.items(keys)
    scalars[:, BIAS] = biases
    return Known(keys, vectors, scalars)


def enter(learner: ServedLearner, found: dict[int, Known], overall: NDArray[Any]) -> Moved | None:
    """Fill an untrained learner with what another one knew; None for one that cannot be filled.

    Vectors of another length are left at their first values; biases count all the same.
    """
    if not isinstance(learner, HybridLearner):
        return None
    entities = 0
    for side in (ITEM, USER):
        known = found[side]
        fit = known.vectors.shape[1] == learner.factors
        vectors = known.vectors if fit else None
        entities += learner.enter(known.keys, side, vectors, known.scalars)
    learner.set_mean(overall)
    return Moved(entities, learner.rows_given)

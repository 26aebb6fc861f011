"""The clipped integer vector of a rating, one cell at a time: the obvious version."""

from __future__ import annotations

import math

import numpy as np

from research.kernels.clipped_gradients import COUNT, MIDDLE, SHARE, slot
from research.trainers.cell_model import CellModel
from stream_app.kernels.factorization.count_sketch_literal import place
from stream_app.kernels.machine.scalars import hash64
from stream_app.models.seeds import ITEMS, USERS, derive_seed


def vector(model: CellModel, seed: int, rating: tuple[int, int, float], norm: float, bound: int):
    """Return cell -> units of one rating, duplicates summed, clipped and rounded towards zero."""
    user, item, stars = rating
    K, D, theta = model.depth, model.factors, model.theta
    found = []
    for key, side in ((user, USERS), (item, ITEMS)):
        h = np.uint64(hash64(np.uint64((key + int(derive_seed(seed, side))) % 2**64)))
        at, signs = np.empty((K, D), np.int64), np.empty((K, D), np.float32)
        place(h, D, K, np.uint64(model.scalars // K), at, signs)
        latent = (signs * theta[at]).sum(axis=0) / K
        found.append((at, signs, latent, int(slot(h, model.scalars, model.size))))
    (at_u, signs_u, p, su), (at_i, signs_i, q, si) = found
    e = stars - MIDDLE - theta[model.scalars] - theta[su] - theta[si] - float(p @ q)
    parts = [(model.scalars, SHARE * e), (su, e), (si, e), (su + 1, COUNT), (si + 1, COUNT)]
    for at, signs, across in ((at_u, signs_u, q), (at_i, signs_i, p)):
        for j in range(K):
            parts += [(int(at[j, c]), signs[j, c] * e * across[c] / math.sqrt(K)) for c in range(D)]
    total: dict[int, float] = {}
    for cell, value in parts:
        total[cell] = total.get(cell, 0.0) + value
    length = math.sqrt(sum(value**2 for value in total.values()))
    factor = bound / max(norm, length)
    return {cell: math.trunc(value * factor) for cell, value in total.items()}

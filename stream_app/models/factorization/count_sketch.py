"""The learner of fixed memory: vectors in a count sketch, scalars in a hashed table (S004 ch. 4).

Nothing is allocated after the start, whatever ids arrive. `sketch` and `hashing` keep a whole
vector at one address a row (`kernels/sketch_blocked.py`), `literal` every component at its own
(`kernels/sketch_literal.py`).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.factorization import factor_lookup as reading
from stream_app.kernels.factorization import training_loops as learning
from stream_app.kernels.factorization.bias_table import SLOT_BYTES
from stream_app.kernels.factorization.count_sketch_blocked import MAX_DEPTH
from stream_app.kernels.factorization.erase import forget_scalars, forget_vector
from stream_app.kernels.factorization.initialization import UNIT, fill
from stream_app.models.factorization.base import USER, Entities, Factorization
from stream_app.models.factorization.batch_columns import keys_of
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.hyperparameters import Parameters
from stream_app.models.factorization.learner import Keys, UpdateResult
from stream_app.models.paged_arrays import Arrays, DirtyMap, copy_into, dirty_map
from stream_app.models.seeds import CELLS, derive_seed

_CACHE_LINE = 64


class SketchLearner(Factorization):
    """Online matrix factorization in one count sketch: `sketch`, `literal` and `hashing`."""

    def __init__(
        self,
        name: str,
        channels: Channels,
        *,
        factors: int,
        depth: int,
        sketch_bytes: int,
        scalars_bytes: int,
        parameters: Parameters,
        seed: int,
    ) -> None:
        super().__init__(channels, factors, parameters.mean_variance, seed)
        if not 1 <= depth <= MAX_DEPTH:
            raise ValueError(f"depth {depth}: must be 1 .. {MAX_DEPTH}")
        self.width = sketch_bytes // (4 * depth * factors) * factors
        if not 1 <= self.width < 2**31:
            raise ValueError(
                f"sketch_bytes {sketch_bytes}: {depth} rows of at least one vector take "
                f"{4 * depth * factors} bytes, and a row has fewer than 2^31 cells"
            )
        slots = scalars_bytes // SLOT_BYTES // 4 * 4
        if not 4 <= slots < 2**32:
            raise ValueError(f"scalars_bytes {scalars_bytes}: must be {4 * SLOT_BYTES} .. 2^36")
        self.name, self.depth = name, depth
        self._constants = parameters.constants
        self._cells = _aligned(depth * self.width)
        spread = parameters.cell_sd * math.sqrt(depth)
        self._first = derive_seed(seed, CELLS), spread / UNIT
        fill(self._cells, *self._first)
        self._tags = np.zeros(slots, np.uint32)
        self._scalars = np.tile(np.array([0, 1, 1], np.float32), (slots, 1))
        self._pages = [dirty_map(array) for array in self.arrays().values()]
        self._literal = literal = name == "literal"
        self._learn = (learning.literal_loop if literal else learning.blocked_loop)(factors, depth)
        self._read = (reading.literal_reader if literal else reading.blocked_reader)(factors, depth)

    def learn_many(
        self,
        users: Keys,
        items: Keys,
        reports: NDArray[np.uint8],
        channels: NDArray[np.uint16],
        learn: NDArray[np.bool_],
        priors: NDArray[np.floating] | None = None,
    ) -> UpdateResult:
        """Predict, decode and learn each rating in order; see `Learner`."""
        batch = self._columns(users, items, reports, channels, learn, priors=priors)
        update = UpdateResult.empty(len(users))
        self._learn(
            self._cells, self._tags, self._scalars, self._overall, *self._pages[:3],
            self._seeds, self._constants, *self._tables,
            *batch, *update,
        )  # fmt: skip
        self._pages[3][0] |= batch[4].any()
        return update

    def _entities(self, keys: Keys, side: int) -> Entities:
        keys = keys_of(keys)
        vectors = np.empty((len(keys), self.factors), np.float32)
        biases = np.empty(len(keys), np.float32)
        self._read(self._cells, self._tags, self._scalars, self._seeds[side], keys, vectors, biases)
        return vectors, biases

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return all that decides future predictions."""
        return {
            "cells": self._cells,
            "tags": self._tags,
            "scalars": self._scalars,
            "overall": self._overall,
        }

    def dirty_pages(self) -> dict[str, DirtyMap]:
        """Return the bitmap of each array."""
        return dict(zip(self.arrays(), self._pages, strict=True))

    def load(self, arrays: Arrays) -> None:
        """Replace the state by what `arrays()` returned; raises ValueError where it does not
        fit."""
        copy_into(arrays, self.arrays(), self.dirty_pages())

    def forget(self, user: np.uint64) -> None:
        """Make a user read as an unknown one (`kernels/forgetting.py`); its tag remains, and so do
        scalars that it shares."""
        cells, _, scalars, _ = self._pages
        at, layout = self._seeds[USER], (self._literal, self.factors, self.depth)
        forget_vector(self._cells, cells, user, at, *self._first, *layout)
        forget_scalars(self._tags, self._scalars, scalars, user, at)

    @property
    def slots(self) -> dict[str, int]:
        """How many entities each table holds before they must share."""
        blocks = self.depth * self.width // self.factors
        return {"vectors": blocks, "scalars": len(self._tags)}

    @property
    def memory_bytes(self) -> int:
        """Memory held by the state."""
        return sum(a.nbytes for a in self.arrays().values())


def _aligned(cells: int) -> NDArray[np.float32]:
    """Return a flat array on a cache line, so that a vector crosses as few as possible."""
    raw = np.empty(cells + _CACHE_LINE // 4, np.float32)
    first = (-raw.ctypes.data % _CACHE_LINE) // 4
    return raw[first : first + cells]

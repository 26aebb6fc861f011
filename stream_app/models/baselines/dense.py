"""The learner with a row for every entity: accurate, with memory that grows.

Tables double when full. Rows are handed out in the order of first learning, so `arrays` shows only
rows in use and is equal for equal histories. Unknown entities read as their hashed initial vector
and take no memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.factorization.dense_rows import read_many
from stream_app.kernels.factorization.initialization import UNIT
from stream_app.kernels.factorization.training_loops.dense_loop import dense_loop
from stream_app.kernels.instrumentation import timed
from stream_app.kernels.stream.hash_index import rehash
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.learner import (
    BatchColumns,
    Factorization,
    Keys,
    LearnerSpec,
    UpdateResult,
)
from stream_app.models.seeds import secret_seed

_SIDES = "user", "item"
_SLICE = 4096  # events between two checks of the free rows: bounds what a batch reserves
_LEAST = 16  # rows


class _Rows:
    """One side's tables: keys, vectors, scalars, and the map from key to row."""

    def __init__(self, factors: int, seed: np.uint64) -> None:
        self.seed, self.count = seed, 0
        self._tables: tuple[NDArray[Any], ...] = (
            np.zeros(_LEAST, np.uint64),
            np.zeros((_LEAST, factors), np.float32),
            np.zeros((_LEAST, 3), np.float32),
        )
        self._place()

    def spare(self, rows: int) -> None:
        """Make sure that so many more rows fit."""
        room = len(self._tables[0])
        if self.count + rows <= room:
            return
        more = (1 << (self.count + rows - 1).bit_length()) - room  # to a power of two
        self._tables = tuple(
            np.pad(table, ((0, more), *((0, 0),) * (table.ndim - 1))) for table in self._tables
        )
        self._place()

    def _place(self) -> None:
        """Find the rows of all keys again."""
        keys = self._tables[0]
        self._slots = np.full(2 * len(keys), -1, np.int64)
        rehash(self._slots, keys, self.seed, self.count)

    def tables(self) -> tuple[NDArray[Any], ...]:
        """Return the map, keys, vectors and scalars as the kernels take them."""
        keys, vectors, scalars = self._tables
        return self._slots, keys, vectors.reshape(-1), scalars

    def used(self) -> dict[str, NDArray[Any]]:
        """Return the rows in use by the name of their table, vectors one by one."""
        keys, vectors, scalars = (table[: self.count] for table in self._tables)
        return {"keys": keys, "vectors": vectors.reshape(-1), "scalars": scalars}

    @property
    def memory_bytes(self) -> int:
        return self._slots.nbytes + sum(table.nbytes for table in self._tables)


class DenseLearner(Factorization):
    """Online matrix factorization with one row per entity."""

    name = "dense"

    def __init__(self, channels: Channels, spec: LearnerSpec) -> None:
        super().__init__(channels, spec)
        parameters, factors = spec.parameters, spec.factors
        self._scales = np.array([parameters.user_sd, parameters.item_sd]) / UNIT
        self._place_seed = secret_seed()
        self._sides = (_Rows(factors, self._place_seed), _Rows(factors, self._place_seed))
        self._learn = dense_loop(factors)

    def _learn_batch(self, batch: BatchColumns, update: UpdateResult) -> None:
        for first in range(0, len(batch.users), _SLICE):
            part = slice(first, first + _SLICE)
            for side in self._sides:
                side.spare(_SLICE + 1)
            counts = np.array([side.count for side in self._sides])
            timed(
                self._learn,
                *self._sides[0].tables(), *self._sides[1].tables(), counts,
                self._place_seed, self._overall, self._seeds, self._scales, self._constants,
                *self._tables,
                *(column[part] for column in (*batch, *update)),
            )  # fmt: skip
            for side, count in zip(self._sides, counts.tolist(), strict=True):
                side.count = count

    def _look_up(
        self, keys: Keys, side: int, vectors: NDArray[np.float32], biases: NDArray[np.float32]
    ) -> None:
        rows = self._sides[side]
        rows.spare(1)
        slots, own, *numbers = rows.tables()
        read_many(
            slots, own, rows.seed, rows.count, keys, self._seeds[side], self._scales[side],
            self.factors, *numbers, vectors, biases,
        )  # fmt: skip

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all that decides future predictions: the rows in use."""
        return {"overall": self._overall} | {
            f"{name}_{part}": array
            for name, side in zip(_SIDES, self._sides, strict=True)
            for part, array in side.used().items()
        }

    @property
    def slots(self) -> dict[str, int]:
        """No table is shared."""
        return {}

    @property
    def memory_bytes(self) -> int:
        """Memory held by the state, room for growth included."""
        return sum(side.memory_bytes for side in self._sides) + self._overall.nbytes

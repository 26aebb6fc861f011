"""The learner with a row for every entity: accurate, with memory that grows.

Tables double when full. Rows are handed out in the order of first learning, so `arrays` shows only
rows in use and is equal for equal histories. Unknown entities read as their hashed initial vector
and take no memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.factorization.dense_rows import read_many
from stream_app.kernels.factorization.erase import forget_row
from stream_app.kernels.factorization.initialization import UNIT
from stream_app.kernels.factorization.training_loops.dense_loop import dense_loop
from stream_app.kernels.instrumentation import timed
from stream_app.kernels.stream.hash_index import add_all, rehash
from stream_app.kernels.stream.hash_index import rows_of as find_rows
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.learner import (
    USER,
    BatchColumns,
    Factorization,
    Keys,
    LearnerSpec,
    UpdateResult,
    keys_of,
)
from stream_app.models.growing_arrays import GrowingArrays
from stream_app.models.paged_arrays import (
    Arrays,
    DirtyMap,
    check_arrays,
    check_rows,
    dirty_map,
    mark_dirty,
)
from stream_app.models.seeds import secret_seed

_SIDES, _PARTS = ("user", "item"), ("keys", "vectors", "scalars")
_SLICE = 4096  # events between two checks of the free rows: bounds what a batch reserves


class _Rows(GrowingArrays):
    """One side's tables: keys, vectors, scalars, and the map from key to row."""

    growing: ClassVar[frozenset[str]] = frozenset(_PARTS)

    def __init__(self, factors: int, seed: np.uint64) -> None:
        super().__init__()
        self.factors, self.seed = factors, seed
        self.keep_growing("keys", np.uint64)
        self.keep_growing("vectors", np.float32, factors)
        self.keep_growing("scalars", np.float32, 3)
        self.derive()

    def __len__(self) -> int:
        return self.length("keys")

    def spare(self, rows: int) -> None:
        """Make sure that so many more rows fit."""
        if len(self) + rows > len(self.room("keys")):
            for name in _PARTS:
                self.reserve(name, len(self) + rows)
            self.derive()

    def tables(self) -> tuple[NDArray[Any], ...]:
        """Return the map, keys, vectors and scalars as the kernels take them."""
        keys, vectors, scalars = (self.room(name) for name in _PARTS)
        return self.slots, keys, vectors.reshape(-1), scalars

    def check(self, arrays: Arrays) -> None:
        """Raise ValueError unless there is one of each for a key, and no key occurs twice."""
        keys, vectors, scalars = (arrays[name] for name in _PARTS)
        if not len(keys) == len(vectors) == len(scalars):
            raise ValueError(
                f"{len(keys)} keys, {len(scalars)} rows of scalars, {len(vectors)} vectors: use "
                f"one row and {self.factors} numbers for each key"
            )
        # Sorted: `np.unique` enters the keys, which devices choose, into a table of known hashes.
        ordered = np.sort(keys)
        if (ordered[1:] == ordered[:-1]).any():
            raise ValueError(f"{len(keys)} keys: a key occurs twice")

    def derive(self) -> None:
        """Find the rows of all keys again."""
        keys = self.room("keys")
        self.slots = np.full(2 * len(keys), -1, np.int64)
        rehash(self.slots, keys, self.seed, len(self))

    @property
    def memory_bytes(self) -> int:
        return super().memory_bytes + self.slots.nbytes


class DenseLearner(Factorization):
    """Online matrix factorization with one row per entity."""

    name = "dense"
    growing = frozenset(f"{side}_{part}" for side in _SIDES for part in _PARTS)

    def __init__(self, channels: Channels, spec: LearnerSpec) -> None:
        super().__init__(channels, spec)
        parameters, factors = spec.parameters, spec.factors
        self._scales = np.array([parameters.user_sd, parameters.item_sd]) / UNIT
        self._place_seed = secret_seed()
        self._sides = (_Rows(factors, self._place_seed), _Rows(factors, self._place_seed))
        self._overall_pages = dirty_map(self._overall)
        self._learn = dense_loop(factors)

    def _learn_batch(self, batch: BatchColumns, update: UpdateResult) -> None:
        if batch.learn.any():
            mark_dirty(self._overall_pages, 0, self._overall.nbytes)
        for first in range(0, len(batch.users), _SLICE):
            part = slice(first, first + _SLICE)
            for side in self._sides:
                side.spare(_SLICE + 1)
            counts = np.array([len(side) for side in self._sides])
            timed(
                self._learn,
                *self._sides[0].tables(), *self._sides[1].tables(), counts,
                *(side.pages(name) for side in self._sides for name in _PARTS[1:]),
                self._place_seed, self._overall, self._seeds, self._scales, self._constants,
                *self._tables,
                *(column[part] for column in (*batch, *update)),
            )  # fmt: skip
            for side, count in zip(self._sides, counts.tolist(), strict=True):
                for name in _PARTS:
                    side.extend(name, count)

    def _look_up(
        self, keys: Keys, side: int, vectors: NDArray[np.float32], biases: NDArray[np.float32]
    ) -> None:
        rows = self._sides[side]
        rows.spare(1)
        slots, own, *numbers = rows.tables()
        read_many(
            slots, own, rows.seed, len(rows), keys, self._seeds[side], self._scales[side],
            self.factors, *numbers, vectors, biases,
        )  # fmt: skip

    def scalars_of(self, keys: Keys, side: int) -> NDArray[np.float32]:
        """Return bias and shares of entities, NaN where unknown."""
        rows = self._rows_of_keys(keys, side)
        found = np.full((len(keys), 3), np.nan, np.float32)
        found[rows >= 0] = self._sides[side].room("scalars")[rows[rows >= 0]]
        return found

    def enter(
        self,
        keys: Keys,
        side: int,
        vectors: NDArray[np.float32] | None,
        scalars: NDArray[np.float32],
    ) -> int:
        """Set vectors (n, factors), None: the first ones, and scalars (n, 3) of distinct entities
        of one side; return how many were entered: all."""
        table, count = self._sides[side], len(self._sides[side])
        table.spare(len(keys) + 1)
        if vectors is None:
            vectors = self._entities(keys, side)[0]
        rows = np.empty(len(keys), np.int64)
        slots, own, _, _ = table.tables()
        count = add_all(slots, own, table.seed, count, keys_of(keys), rows)
        for name in _PARTS:
            table.extend(name, count)
        for name, values in (("vectors", vectors), ("scalars", scalars)):
            pages, row = table.pages(name), table.room(name)[0].nbytes
            for place in rows.tolist():
                mark_dirty(pages, row * place, row * (place + 1))
            table.room(name)[rows] = values
        return len(keys)

    def _rows_of_keys(self, keys: Keys, side: int) -> NDArray[np.int64]:
        table, rows = self._sides[side], np.empty(len(keys), np.int64)
        find_rows(table.slots, table.room("keys"), table.seed, keys_of(keys), rows)
        return rows

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all that decides future predictions: the rows in use, vectors one by one."""
        named = {f"{n}_{part}": a for n, rows in self._named() for part, a in rows.arrays().items()}
        flat = {n: a.reshape(-1) if n.endswith("vectors") else a for n, a in named.items()}
        return {"overall": self._overall} | flat

    def _named(self) -> zip[tuple[str, _Rows]]:
        return zip(_SIDES, self._sides, strict=True)

    def dirty_pages(self) -> dict[str, DirtyMap]:
        """Return the dirty-page map of each array."""
        return {"overall": self._overall_pages} | {
            f"{n}_{part}": a for n, rows in self._named() for part, a in rows.dirty_pages().items()
        }

    def _rows_of(self, numbers: int) -> int:
        if numbers % self.factors:
            raise ValueError(f"{numbers} numbers in vectors: use one row of {self.factors} a key")
        return numbers // self.factors

    def load(self, arrays: Arrays) -> None:
        """Replace the state by what `arrays()` returned; raises ValueError where it does not
        fit."""
        check_arrays(arrays, self.arrays(), self.growing)
        given = [{part: arrays[f"{side}_{part}"] for part in _PARTS} for side in _SIDES]
        for side, each in zip(self._sides, given, strict=True):
            rows = self._rows_of(len(each["vectors"]))
            each["vectors"] = each["vectors"].reshape(rows, self.factors)
            side.check(each)
        for side, each in zip(self._sides, given, strict=True):
            side.load(each)
        mark_dirty(self._overall_pages, 0, self._overall.nbytes)
        self._overall[:] = arrays["overall"]

    def resize(self, rows: Mapping[str, int]) -> None:
        """Give each table so many rows; see `StatePart`."""
        check_rows(rows, self.growing)
        for name, side in self._named():
            wanted = {part: rows[f"{name}_{part}"] for part in _PARTS}
            side.resize(wanted | {"vectors": self._rows_of(wanted["vectors"])})

    def index(self) -> None:
        """Find the rows of all keys again, and mark every page; see `StatePart`."""
        for side in self._sides:
            side.index()
        mark_dirty(self._overall_pages, 0, self._overall.nbytes)

    def forget(self, user: np.uint64) -> None:
        """Reset the user's row, if any, to its initial values; its key remains."""
        rows = self._sides[USER]
        slots, keys, *numbers = rows.tables()
        forget_row(
            slots, keys, rows.seed, *numbers, *(rows.pages(name) for name in _PARTS[1:]), user,
            self._seeds[USER], self._scales[USER], self.factors,
        )  # fmt: skip

    @property
    def slots(self) -> dict[str, int]:
        """No table is shared."""
        return {}

    @property
    def memory_bytes(self) -> int:
        """Memory held by the state, room for growth included."""
        return sum(side.memory_bytes for side in self._sides) + self._overall.nbytes

"""The learner with a row for every entity: accurate, with memory that grows.

Tables double when full. Rows are handed out in the order of first learning, so `arrays` shows only
rows in use and is equal for equal histories. Unknown entities read as their hashed initial vector
and take no memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.factorization.dense_rows import read_many
from stream_app.kernels.factorization.erase import forget_row
from stream_app.kernels.factorization.initialization import UNIT
from stream_app.kernels.factorization.training_loops.dense_loop import dense_loop
from stream_app.kernels.instrumentation import timed
from stream_app.kernels.stream.hash_index import rehash
from stream_app.models.factorization.batch_columns import BatchColumns, keys_of
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.factor_model import USER, Factorization
from stream_app.models.factorization.learner import Entities, Keys, LearnerSpec, UpdateResult
from stream_app.models.paged_arrays import (
    Arrays,
    DirtyMap,
    check_arrays,
    check_rows,
    dirty_map,
    grown_map,
    leading_pages,
    mark_dirty,
)
from stream_app.models.seeds import secret_seed

_SIDES, _PARTS = ("user", "item"), ("keys", "vectors", "scalars")
_SLICE = 4096  # events between two checks of the free rows: bounds what a batch reserves


class _Rows:
    """One side's tables: keys, vectors, scalars, and the map from key to row."""

    def __init__(self, factors: int, seed: np.uint64, room: int = 1024) -> None:
        self.factors, self.room = factors, 0
        self.seed = seed
        self.keys: NDArray[np.uint64] = np.empty(0, np.uint64)
        self.vectors: NDArray[np.float32] = np.empty(0, np.float32)
        self.scalars: NDArray[np.float32] = np.empty((0, 3), np.float32)
        self.slots: NDArray[np.int64] = np.empty(0, np.int64)
        self.pages = [dirty_map(array) for array in (self.keys, self.vectors, self.scalars)]
        self.reserve(room, 0)

    def reserve(self, room: int, count: int) -> None:
        """Make sure that `room` rows fit; `count` are in use."""
        if room <= self.room:
            return
        self.room = 1 << (room - 1).bit_length()
        self.keys = _more(self.keys, self.room)
        self.vectors = _more(self.vectors, self.room * self.factors)
        self.scalars = _more(self.scalars, self.room)
        arrays: tuple[NDArray[Any], ...] = self.keys, self.vectors, self.scalars
        self.pages = [grown_map(old, array) for old, array in zip(self.pages, arrays, strict=True)]
        self.slots = np.full(2 * self.room, -1, np.int64)
        rehash(self.slots, self.keys, self.seed, count)

    def used(self, count: int) -> dict[str, NDArray[Any]]:
        """Return the rows in use."""
        vectors = self.vectors[: count * self.factors]
        return {"keys": self.keys[:count], "vectors": vectors, "scalars": self.scalars[:count]}

    def load(self, arrays: Arrays) -> None:
        """Copy in rows, all of which are in use; raises ValueError where they do not fit."""
        count = len(arrays["keys"])
        self.resize(count, len(arrays["vectors"]), len(arrays["scalars"]))
        for name, array in self.used(count).items():
            np.copyto(array, arrays[name])
        self.index(count)

    def resize(self, keys: int, vectors: int, scalars: int) -> None:
        """Make room for rows that are all in use, and zero what lies beyond them."""
        if scalars != keys or vectors != keys * self.factors:
            raise ValueError(
                f"{keys} keys, {scalars} rows of scalars, {vectors} numbers in vectors: use one "
                f"row and {self.factors} numbers for each key"
            )
        self.reserve(keys + 1, 0)
        self.slots[:] = -1
        for array, rows in (
            (self.keys, keys), (self.vectors, vectors), (self.scalars, scalars),
        ):  # fmt: skip
            array[rows:] = 0

    def index(self, count: int) -> None:
        """Find the rows of all keys again; raises ValueError where one occurs twice."""
        self.slots[:] = -1
        rehash(self.slots, self.keys, self.seed, count)
        if int((self.slots >= 0).sum()) != count:
            raise ValueError(f"{count} keys: a key occurs twice")
        for pages in self.pages:
            pages[:] = 1

    @property
    def memory_bytes(self) -> int:
        return self.keys.nbytes + self.vectors.nbytes + self.scalars.nbytes + self.slots.nbytes


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
        self._counts = np.zeros(2, np.int64)
        self._overall_pages = dirty_map(self._overall)
        self._learn = dense_loop(factors)

    def _learn_batch(self, batch: BatchColumns, update: UpdateResult) -> None:
        if batch.learn.any():
            mark_dirty(self._overall_pages, 0, self._overall.nbytes)
        for first in range(0, len(batch.users), _SLICE):
            part = slice(first, first + _SLICE)
            for side, count in zip(self._sides, self._counts, strict=True):
                side.reserve(int(count) + _SLICE + 1, int(count))
            u, i = self._sides
            before = self._counts.tolist()
            timed(
                self._learn,
                u.slots, u.keys, u.vectors, u.scalars, i.slots, i.keys, i.vectors, i.scalars,
                self._counts, *u.pages[1:], *i.pages[1:],
                self._place_seed, self._overall, self._seeds, self._scales, self._constants,
                *self._tables,
                *(column[part] for column in (*batch, *update)),
            )  # fmt: skip
            for side, old, new in zip(self._sides, before, self._counts.tolist(), strict=True):
                mark_dirty(side.pages[0], 8 * old, 8 * new)

    def _entities(self, keys: Keys, side: int) -> Entities:
        rows = self._sides[side]
        rows.reserve(int(self._counts[side]) + 1, int(self._counts[side]))
        keys = keys_of(keys)
        vectors = np.empty((len(keys), self.factors), np.float32)
        biases = np.empty(len(keys), np.float32)
        read_many(
            rows.slots, rows.keys, rows.seed, self._counts[side], keys, self._seeds[side],
            self._scales[side], self.factors, rows.vectors, rows.scalars, vectors, biases,
        )  # fmt: skip
        return vectors, biases

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return all that decides future predictions: the rows in use."""
        sides = zip(_SIDES, self._sides, self._counts.tolist(), strict=True)
        used = ((side, rows.used(count)) for side, rows, count in sides)
        named = {f"{side}_{name}": a for side, arrays in used for name, a in arrays.items()}
        return {"overall": self._overall} | named

    def dirty_pages(self) -> dict[str, DirtyMap]:
        """Return the dirty-page map of each array."""
        pages = [self._overall_pages, *self._sides[0].pages, *self._sides[1].pages]
        arrays = zip(self.arrays().items(), pages, strict=True)
        return {name: leading_pages(page, array) for (name, array), page in arrays}

    def load(self, arrays: Arrays) -> None:
        """Replace the state by what `arrays()` returned; raises ValueError where it does not
        fit."""
        check_arrays(arrays, self.arrays(), self.growing)
        sides = _Rows(self.factors, self._place_seed), _Rows(self.factors, self._place_seed)
        for name, rows in zip(_SIDES, sides, strict=True):
            rows.load({part: arrays[f"{name}_{part}"] for part in _PARTS})
        self._sides = sides
        self._counts[:] = [len(arrays[f"{name}_keys"]) for name in _SIDES]
        mark_dirty(self._overall_pages, 0, self._overall.nbytes)
        self._overall[:] = arrays["overall"]

    def resize(self, rows: Mapping[str, int]) -> None:
        """Give each table so many rows; see `StatePart`."""
        check_rows(rows, self.growing)
        for number, (name, side) in enumerate(zip(_SIDES, self._sides, strict=True)):
            side.resize(*(rows[f"{name}_{part}"] for part in _PARTS))
            self._counts[number] = rows[f"{name}_keys"]

    def index(self) -> None:
        """Find the rows of all keys again, and mark every page; see `StatePart`."""
        for side, count in zip(self._sides, self._counts.tolist(), strict=True):
            side.index(count)
        self._overall_pages[:] = 1

    def forget(self, user: np.uint64) -> None:
        """Reset the user's row, if any, to its initial values; its key remains."""
        rows = self._sides[USER]
        forget_row(
            rows.slots, rows.keys, rows.seed, rows.vectors, rows.scalars, *rows.pages[1:], user,
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


_T = TypeVar("_T", bound=np.generic)


def _more(array: NDArray[_T], rows: int) -> NDArray[_T]:
    grown_map = np.zeros((rows, *array.shape[1:]), array.dtype)
    grown_map[: len(array)] = array
    return grown_map

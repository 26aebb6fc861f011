"""The learner with a row for every entity: accurate, with memory that grows.

Tables double when full. Rows are handed out in the order of first learning, so `arrays` shows only
rows in use and is equal for equal histories. Unknown entities read as their hashed initial vector
and take no memory.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.dense_vectors import read_many
from stream_app.kernels.directory import rehash
from stream_app.kernels.initial import UNIT
from stream_app.kernels.learning import dense_loop
from stream_app.models.channels import Channels
from stream_app.models.columns import keys_of
from stream_app.models.factorization import Entities, Factorization
from stream_app.models.learner import Keys, Lessons
from stream_app.models.parameters import Parameters

_SLICE = 4096  # events between two looks at the room left: bounds what a batch reserves ahead


class _Rows:
    """One side's tables: keys, vectors, scalars, and the map from key to row."""

    def __init__(self, factors: int) -> None:
        self.factors, self.room = factors, 0
        self.keys: NDArray[np.uint64] = np.empty(0, np.uint64)
        self.vectors: NDArray[np.float32] = np.empty(0, np.float32)
        self.scalars: NDArray[np.float32] = np.empty((0, 3), np.float32)
        self.slots: NDArray[np.int64] = np.empty(0, np.int64)
        self.reserve(1024, 0)

    def reserve(self, room: int, count: int) -> None:
        """Make sure that `room` rows fit; `count` are in use."""
        if room <= self.room:
            return
        self.room = 1 << (room - 1).bit_length()
        self.keys = _grown(self.keys, self.room)
        self.vectors = _grown(self.vectors, self.room * self.factors)
        self.scalars = _grown(self.scalars, self.room)
        self.slots = np.full(2 * self.room, -1, np.int64)
        rehash(self.slots, self.keys, count)

    @property
    def memory_bytes(self) -> int:
        return self.keys.nbytes + self.vectors.nbytes + self.scalars.nbytes + self.slots.nbytes


class DenseLearner(Factorization):
    """Online matrix factorization with one row per entity."""

    name = "dense"

    def __init__(self, channels: Channels, factors: int, parameters: Parameters, seed: int) -> None:
        super().__init__(channels, factors, parameters.mean_variance, seed)
        self._constants = parameters.constants
        self._scales = np.array([parameters.user_sd, parameters.item_sd]) / UNIT
        self._sides = (_Rows(factors), _Rows(factors))
        self._counts = np.zeros(2, np.int64)
        self._learn = dense_loop(factors)

    def learn_many(
        self,
        users: Keys,
        items: Keys,
        reports: NDArray[np.uint8],
        channels: NDArray[np.uint16],
        learn: NDArray[np.bool_],
        priors: NDArray[np.floating] | None = None,
    ) -> Lessons:
        """Predict, decode and learn each rating in order; see `Learner`."""
        batch = self._columns(users, items, reports, channels, learn, priors=priors)
        lessons = Lessons.blank(len(users))
        for first in range(0, len(users), _SLICE):
            part = slice(first, first + _SLICE)
            for side, count in zip(self._sides, self._counts, strict=True):
                side.reserve(int(count) + _SLICE + 1, int(count))
            u, i = self._sides
            self._learn(
                u.slots, u.keys, u.vectors, u.scalars, i.slots, i.keys, i.vectors, i.scalars,
                self._counts, self._overall, self._salts, self._scales, self._constants,
                *self._tables,
                *(column[part] for column in (*batch, *lessons)),
            )  # fmt: skip
        return lessons

    def _entities(self, keys: Keys, side: int) -> Entities:
        rows = self._sides[side]
        rows.reserve(int(self._counts[side]) + 1, int(self._counts[side]))
        keys = keys_of(keys)
        vectors = np.empty((len(keys), self.factors), np.float32)
        biases = np.empty(len(keys), np.float32)
        read_many(
            rows.slots, rows.keys, self._counts[side], keys, self._salts[side], self._scales[side],
            self.factors, rows.vectors, rows.scalars, vectors, biases,
        )  # fmt: skip
        return vectors, biases

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return all that decides future predictions: the rows in use."""
        found: dict[str, NDArray[np.generic]] = {"overall": self._overall}
        for name, side, count in zip(("user", "item"), self._sides, self._counts, strict=True):
            found[f"{name}_keys"] = side.keys[:count]
            found[f"{name}_vectors"] = side.vectors[: count * self.factors]
            found[f"{name}_scalars"] = side.scalars[:count]
        return found

    @property
    def slots(self) -> dict[str, int]:
        """No table is shared."""
        return {}

    @property
    def memory_bytes(self) -> int:
        """Memory held by the state, room for growth included."""
        return sum(side.memory_bytes for side in self._sides) + self._overall.nbytes


_T = TypeVar("_T", bound=np.generic)


def _grown(array: NDArray[_T], rows: int) -> NDArray[_T]:
    grown = np.zeros((rows, *array.shape[1:]), array.dtype)
    grown[: len(array)] = array
    return grown

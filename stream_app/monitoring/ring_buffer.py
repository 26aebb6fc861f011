"""The newest values of a sequence in an array of fixed size."""

from __future__ import annotations

from typing import Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

T = TypeVar("T", bound=np.generic)


class RingBuffer(Generic[T]):
    """The newest `capacity` values of a sequence, in no particular order."""

    def __init__(self, capacity: int, dtype: type[T]) -> None:
        if capacity < 1:
            raise ValueError(f"capacity {capacity}: a ring buffer holds at least one value")
        self._values = np.zeros(capacity, dtype)
        self._added = 0

    def __len__(self) -> int:
        return min(self._added, len(self._values))

    def add(self, values: ArrayLike) -> None:
        """Add values (n,), oldest first; values older than the newest `capacity` are dropped."""
        capacity = len(self._values)
        newest = np.asarray(values)[-capacity:]
        self._added += np.size(values)
        first = (self._added - len(newest)) % capacity
        room = min(len(newest), capacity - first)
        self._values[first : first + room] = newest[:room]
        self._values[: len(newest) - room] = newest[room:]

    def values(self) -> NDArray[T]:
        """Return a view of the values held; copy it to keep it."""
        return self._values[: len(self)]

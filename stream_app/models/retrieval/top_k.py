"""The order of answers: higher score first, ties by a keyed hash of the row, not by age."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.retrieval import top_k as selection
from stream_app.models.retrieval.index import Rows

_NO_NAMES = np.empty(0, np.int64)


class Ranker:
    """The kernel `top_k` with its scratch memory, which one search at a time may use."""

    def __init__(self, seed: int) -> None:
        self._salt = np.uint64(seed & (2**64 - 1))
        self._places = np.empty(0, np.int64)
        self._keys = np.empty(0, np.uint64)
        self._reached = np.empty(0, np.uint8)

    def best(self, scores: NDArray[np.float32], count: int, names: Rows = _NO_NAMES) -> Rows:
        """Return the places of the `count` best scores, unordered; `names` are the places' rows."""
        return self._select(scores, count, names)[0].copy()

    def ranking(self, scores: NDArray[np.float32], count: int, names: Rows = _NO_NAMES) -> Rows:
        """Return the places of the `count` best scores, best first."""
        places, keys = self._select(scores, count, names)
        return places[np.argsort(keys)[::-1]]

    def _select(
        self, scores: NDArray[np.float32], count: int, names: Rows
    ) -> tuple[Rows, NDArray[np.uint64]]:
        if len(self._places) < len(scores) + 8:
            room = len(scores) + len(scores) // 2 + 8
            self._places = np.empty(room, np.int64)
            self._keys = np.empty(room, np.uint64)
            self._reached = np.empty(room, np.uint8)
        n = selection.top_k(
            scores,
            scores.view(np.int32),
            names,
            count,
            self._salt,
            self._places,
            self._keys,
            self._reached,
        )
        return self._places[:n], self._keys[:n]

    @property
    def memory_bytes(self) -> int:
        """Size of the scratch."""
        return self._places.nbytes + self._keys.nbytes + self._reached.nbytes

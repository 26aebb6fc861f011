"""What is merged of all shards, and which changes that are."""

from __future__ import annotations

import numpy as np

from stream_app.models.paged_arrays import FixedArrays
from stream_app.state.spec import StateSpec


class SharedItems(FixedArrays):
    """The merged changes of all shards: numbers, ratings (S,) int64 by shard."""

    def __init__(self, spec: StateSpec) -> None:
        super().__init__()
        self._numbers = self.keep("numbers", np.zeros(spec.shards, np.int64))
        self._ratings = self.keep("ratings", np.zeros(spec.shards, np.int64))

    @property
    def numbers(self) -> tuple[int, ...]:
        """The number of the last merged change of each shard, 0 where there is none."""
        return tuple(self._numbers.tolist())

    @property
    def ratings(self) -> int:
        """How many ratings all merged changes counted."""
        return int(self._ratings.sum())

"""The learner of fixed memory: vectors in a count sketch, scalars in a hashed table.

Nothing is allocated after the start, whatever ids arrive (Balu 2016, chapter 4). A whole vector is
at one address a row (`count_sketch_blocked.py` of the kernels).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.exchange.entered_rows import read_scalars
from stream_app.kernels.factorization.bias_table import SLOT_BYTES
from stream_app.kernels.factorization.count_sketch_blocked import MAX_DEPTH
from stream_app.kernels.factorization.erase import forget_scalars, forget_vector
from stream_app.kernels.factorization.factor_lookup import blocked_reader
from stream_app.kernels.factorization.initialization import UNIT, fill
from stream_app.kernels.factorization.training_loops.blocked_loop import blocked_loop
from stream_app.kernels.instrumentation import timed
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.learner import (
    USER,
    BatchColumns,
    Keys,
    LearnerSpec,
    ServedFactorization,
    UpdateResult,
    keys_of,
)
from stream_app.models.paged_arrays import FixedArrays, aligned, mark_dirty
from stream_app.models.seeds import CELLS, derive_seed


class SketchLearner(FixedArrays, ServedFactorization):
    """Online matrix factorization in one count sketch."""

    name = "sketch"

    def __init__(self, channels: Channels, spec: LearnerSpec) -> None:
        FixedArrays.__init__(self)
        ServedFactorization.__init__(self, channels, spec)
        factors, depth = spec.factors, spec.depth
        if not 1 <= depth <= MAX_DEPTH:
            raise ValueError(f"depth {depth}: must be 1 .. {MAX_DEPTH}")
        self.width = spec.sketch_bytes // (4 * depth * factors) * factors
        if not 1 <= self.width < 2**31:
            raise ValueError(
                f"sketch_bytes {spec.sketch_bytes}: {depth} rows of at least one vector take "
                f"{4 * depth * factors} bytes, and a row has fewer than 2^31 cells"
            )
        slots = spec.scalars_bytes // SLOT_BYTES // 4 * 4
        if not 4 <= slots < 2**32:
            raise ValueError(
                f"scalars_bytes {spec.scalars_bytes}: must be {4 * SLOT_BYTES} .. 2^36"
            )
        self.depth = depth
        self._cells = self.keep("cells", aligned(depth * self.width))
        spread = spec.parameters.cell_sd * math.sqrt(depth)
        self._first = derive_seed(spec.seed, CELLS), spread / UNIT
        fill(self._cells, *self._first)
        self._tags = self.keep("tags", np.zeros(slots, np.uint32))
        first_scalars = np.tile(np.array([0, 1, 1], np.float32), (slots, 1))
        self._scalars = self.keep("scalars", first_scalars)
        self.keep("overall", self._overall)
        self._pages = self.maps()
        self._learn, self._read = blocked_loop(factors, depth), blocked_reader(factors, depth)

    def _learn_batch(self, batch: BatchColumns, update: UpdateResult) -> None:
        if batch.learn.any():
            mark_dirty(self._pages[3], 0, self._overall.nbytes)
        timed(
            self._learn,
            self._cells, self._tags, self._scalars, self._overall, *self._pages[:3],
            self._seeds, self._constants, *self._tables,
            *batch, *update,
        )  # fmt: skip

    def _look_up(
        self, keys: Keys, side: int, vectors: NDArray[np.float32], biases: NDArray[np.float32]
    ) -> None:
        self._read(self._cells, self._tags, self._scalars, self._seeds[side], keys, vectors, biases)

    def scalars_of(self, keys: Keys, side: int) -> NDArray[np.float32]:
        """Return bias and shares of entities; see `Learner`."""
        found = np.empty((len(keys), 3), np.float32)
        read_scalars(self._tags, self._scalars, self._seeds[side], keys_of(keys), found)
        return found

    def forget(self, user: np.uint64) -> None:
        """Make the user read as unknown (`kernels/factorization/erase.py`); its tag
        remains, and so do scalars that it shares."""
        cells, _, scalars, _ = self._pages
        at = self._seeds[USER]
        forget_vector(self._cells, cells, user, at, *self._first, self.factors, self.depth)
        forget_scalars(self._tags, self._scalars, scalars, user, at)

    @property
    def slots(self) -> dict[str, int]:
        """Entities that each table holds before they share slots."""
        blocks = self.depth * self.width // self.factors
        return {"vectors": blocks, "scalars": len(self._tags)}

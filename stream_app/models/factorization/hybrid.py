"""The learner of fixed memory whose frequent entities are exact: the default.

Rows go to entities one by one in the order of first learning; when none is left, further entities
share the last few (`hybrid_rows.py` of the kernels). Nothing is allocated after the start, whatever
ids arrive.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.exchange.entered_rows import enter_rows, find_slots, read_scalars
from stream_app.kernels.exchange.natural_rows import add_to_base, subtract_base
from stream_app.kernels.factorization.bias_table import BUCKET, SLOT_BYTES
from stream_app.kernels.factorization.erase import forget_scalars
from stream_app.kernels.factorization.factor_lookup import hybrid_reader
from stream_app.kernels.factorization.hybrid_rows import forget
from stream_app.kernels.factorization.initialization import UNIT
from stream_app.kernels.factorization.training_loops.hybrid_loop import SCRATCH, hybrid_loop
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
from stream_app.models.paged_arrays import Arrays, DirtyMap, FixedArrays, aligned, mark_dirty

# One row in so many is shared. ML-1M in memory for all, a half, a quarter of its entities, RMSE of
# one pass: .873, .891, .917 with 4; .873, .892, .917 with 8; .872, .893, .918 with 16.
SHARED_PART = 8
_OWNER_BYTES = 4
_FIRST_SCALARS = np.array([0, 1, 1], np.float32)


class HybridLearner(FixedArrays, ServedFactorization):
    """Online matrix factorization in rows of an entity's own, and in shared rows after them."""

    name = "hybrid"

    def __init__(self, channels: Channels, spec: LearnerSpec) -> None:
        FixedArrays.__init__(self)
        ServedFactorization.__init__(self, channels, spec)
        factors, parameters = spec.factors, spec.parameters
        rows = spec.sketch_bytes // (4 * factors)
        if not 2 <= rows < 2**31:
            raise ValueError(
                f"sketch_bytes {spec.sketch_bytes}: two rows take {8 * factors} bytes, and there "
                "are fewer than 2^31 rows"
            )
        slots = spec.scalars_bytes // (SLOT_BYTES + _OWNER_BYTES) // 4 * 4
        if not 4 <= slots < 2**32:
            raise ValueError(
                f"scalars_bytes {spec.scalars_bytes}: must be "
                f"{4 * (SLOT_BYTES + _OWNER_BYTES)} .. 2^36"
            )
        self.rows = rows - max(1, rows // SHARED_PART)
        self._scales = np.array([parameters.user_sd, parameters.item_sd]) / UNIT
        self._room = aligned((rows + SCRATCH) * factors)
        self._vectors = self.keep("vectors", self._room[: rows * factors])
        self._tags = self.keep("tags", np.zeros(slots, np.uint32))
        self._scalars = self.keep("scalars", np.tile(_FIRST_SCALARS, (slots, 1)))
        self._owners = self.keep("owners", np.zeros(slots, np.int32))
        self._given = self.keep("given", np.zeros(1, np.int64))
        self.keep("overall", self._overall)
        self._pages = self.maps()
        self._learn, self._read = hybrid_loop(factors), hybrid_reader(factors)

    def _learn_batch(self, batch: BatchColumns, update: UpdateResult) -> None:
        if batch.learn.any():
            for pages, array in zip(self._pages[4:], (self._given, self._overall), strict=True):
                mark_dirty(pages, 0, array.nbytes)
        timed(
            self._learn,
            self._room, self._tags, self._scalars, self._owners, self._given, self._overall,
            *self._pages[:4], self.rows, self._seeds, self._scales, self._constants, *self._tables,
            *batch, *update,
        )  # fmt: skip

    def _look_up(
        self, keys: Keys, side: int, vectors: NDArray[np.float32], biases: NDArray[np.float32]
    ) -> None:
        self._read(
            self._vectors, self._tags, self._scalars, self._owners, self.rows, self._seeds[side],
            self._scales[side], keys, vectors, biases,
        )  # fmt: skip

    def scalars_of(self, keys: Keys, side: int) -> NDArray[np.float32]:
        """Return bias and shares of entities; see `Learner`."""
        found = np.empty((len(keys), 3), np.float32)
        read_scalars(self._tags, self._scalars, self._seeds[side], keys_of(keys), found)
        return found

    def enter(
        self,
        keys: Keys,
        side: int,
        vectors: NDArray[np.float32] | None,
        scalars: NDArray[np.float32],
    ) -> int:
        """Set vectors (n, factors), None: the first ones, and scalars (n, 3) of distinct entities
        of one side, in their order; return how many were entered: those with a slot of their own.

        A vector is entered where there is a row of its own for it, an old or a new one.
        """
        if vectors is None:
            vectors = np.empty((0, self.factors), np.float32)
        mark_dirty(self._pages[4], 0, self._given.nbytes)
        return int(
            enter_rows(
                self._vectors, self._tags, self._scalars, self._owners, self._given,
                *self._pages[:4], self.rows, self._seeds[side], self._scales[side], self.factors,
                keys_of(keys), vectors, scalars,
            )
        )  # fmt: skip

    def beyond(
        self, keys: Keys, side: int, base: NDArray[np.int64]
    ) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
        """Return which entities have a row of their own (n,), and what is known of each beyond a
        base (rows, 3 + factors), (n, 3 + factors); see `natural_rows.py` of the kernels."""
        own = np.empty(len(keys), np.bool_)
        found = np.zeros((len(keys), 3 + self.factors), np.float32)
        timed(
            subtract_base, self._vectors, self._tags, self._scalars, self._owners, base,
            self._seeds[side], self._scales[side], self.factors, keys_of(keys), found, own,
        )  # fmt: skip
        return own, found

    def merge(
        self,
        keys: Keys,
        side: int,
        sums: NDArray[np.int64],
        base: tuple[NDArray[np.int64], DirtyMap],
        *,
        foreign: bool,
    ) -> None:
        """Add changes (n, 3 + factors) of distinct entities to a base, with its pages, and where
        they are `foreign` to their rows, which they take where one is left."""
        if foreign:
            mark_dirty(self._pages[4], 0, self._given.nbytes)
        timed(
            add_to_base, self._vectors, self._tags, self._scalars, self._owners, self._given,
            *self._pages[:4], *base, self.rows, self._seeds[side], self._scales[side],
            self.factors, keys_of(keys), sums, foreign,
        )  # fmt: skip

    def load(self, arrays: Arrays) -> None:
        """Replace the state by what `arrays()` returned; raises ValueError where it does not fit
        or names a row that no entity can own."""
        self._check_owners(arrays)
        super().load(arrays)

    def index(self) -> None:
        """Mark every page; raises ValueError where a row is named that no entity can own."""
        self._check_owners(self.arrays())
        super().index()

    def _check_owners(self, arrays: Arrays) -> None:
        owners, given = arrays.get("owners"), arrays.get("given")
        if owners is not None and given is not None and owners.size and given.size:
            most, own = int(given.max()), (int(owners.min()), int(owners.max()))
            if not (own[0] >= 0 and own[1] <= most <= self.rows):
                raise ValueError(
                    f"owners of rows {own[0]} .. {own[1]}, {most} of {self.rows} rows given out: "
                    "use the state of the same spec"
                )

    def forget(self, user: np.uint64) -> None:
        """Make the user read as unknown; its tag and its row remain, and so do scalars that it
        shares. A shared row is cleared for all of its entities."""
        vectors, _, scalars = self._pages[:3]
        salt = self._seeds[USER]
        forget(
            self._vectors, self._tags, self._owners, vectors, user, salt, self._scales[USER],
            self.rows, self.factors,
        )  # fmt: skip
        forget_scalars(self._tags, self._scalars, scalars, user, salt)

    def drop(self, users: Keys, kept: Keys, vectors: NDArray[np.float32]) -> None:
        """Remove users (n,), but none who shares a slot with one that is `kept` (m,): their slots
        and rows are free. The rows of all others are taken from `vectors`, and move together; those
        of this learner are zeros. What users share with others stays, and so does a slot of a full
        bucket, which entities may share: all others read as before."""
        self.mark_all_dirty()
        gone = self._have(users) & ~self._have(kept)
        self._owners[gone] = 0
        tags, scalars = self._tags.reshape(-1, BUCKET), self._scalars.reshape(-1, BUCKET, 3)
        freed = gone.reshape(-1, BUCKET) & (tags == 0).any(axis=1)[:, None]
        tags[freed], scalars[freed] = 0, _FIRST_SCALARS
        # The first slot of a bucket that fits is an entity's: no free one may come before it.
        buckets = np.flatnonzero(freed.any(axis=1))
        order = np.argsort(tags[buckets] == 0, axis=1, kind="stable")
        for rows in (tags, self._owners.reshape(-1, BUCKET), scalars):
            rows[buckets] = rows[buckets[:, None], order]
        given = int(self._given[0])
        rest = np.flatnonzero(np.bincount(self._owners, minlength=given + 1)[1:])
        places = np.zeros(given + 1, np.int32)
        places[rest + 1] = np.arange(1, len(rest) + 1)
        self._owners[:] = places[self._owners]
        own, before = (each.reshape(-1, self.factors) for each in (self._vectors, vectors))
        own[: len(rest)], own[self.rows :] = before[rest], before[self.rows :]
        self._given[0] = len(rest)

    def _have(self, users: Keys) -> NDArray[np.bool_]:
        """Return which slots (S,) are those of users (n,)."""
        slots = np.empty(len(users), np.int64)
        find_slots(self._tags, self._seeds[USER], keys_of(users), slots)
        found = np.zeros(len(self._tags), np.bool_)
        found[slots[slots >= 0]] = True
        return found

    @property
    def rows_given(self) -> int:
        """Rows that entities own."""
        return int(self._given[0])

    @property
    def slots(self) -> dict[str, int]:
        """Entities that each table holds before they share slots."""
        return {"vectors": self.rows, "scalars": len(self._tags)}

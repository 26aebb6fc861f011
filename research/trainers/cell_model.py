"""A factorization of which every number is learned from noisy sums alone.

    predicted = within(3 + mean + b_u + b_i + p_u . q_i, 1, 5)

Vectors are in a count sketch (Balu 2016, section 4.1), biases in slots by hash, all in one flat
array. Which cells a rating touches is private, so a trainer adds noise to all of them, and a cell
that no rating touches looks like any other. Nothing is computed from ratings but the integer sums
of `add_clipped`: no exact mean, no table of who has been seen.

theta: (size,) float64, cells first; `scalars` has the place of the mean.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from research.kernels import clipped_gradients
from stream_app.kernels.factorization.initialization import UNIT, fill
from stream_app.models.factorization.learner import Keys, LearnerSpec, keys_of
from stream_app.models.seeds import CELLS, ITEMS, USERS, derive_seed

COUNT, SHARE = clipped_gradients.COUNT, clipped_gradients.SHARE
LOWEST, HIGHEST = 1.0, 5.0
FIRST_SD = 0.1  # of a component of an unlearned vector: p.q cannot leave zero
_SLOT_BYTES = 16  # a bias and a count

Events = tuple[Keys, Keys, NDArray[np.float64]]  # users, items, stars on 1 .. 5: (n,) each


class CellModel:
    """The parameters; sizes are public, from the spec.

    A cell of float64 stands for one of float32, so there are `sketch_bytes` / 4: with the same spec
    gamma (Balu 2016, eq. 4.9) is that of the learners.
    """

    def __init__(self, spec: LearnerSpec) -> None:
        self.factors, self.depth = spec.factors, spec.depth
        width = spec.sketch_bytes // (4 * spec.depth)
        slots = spec.scalars_bytes // _SLOT_BYTES
        if not (1 <= spec.depth <= 16 and spec.factors <= width < 2**31):
            raise ValueError(
                f"sketch_bytes {spec.sketch_bytes}: {spec.depth} rows (1 to 16) of at least "
                f"{spec.factors} cells of 4 bytes, and fewer than 2^31 cells a row"
            )
        if slots < 1:
            raise ValueError(f"scalars_bytes {spec.scalars_bytes}: must be {_SLOT_BYTES} or more")
        self.scalars = spec.depth * width
        self.theta = np.zeros(self.scalars + 1 + 2 * slots)
        first = np.empty(self.scalars, np.float32)
        scale = FIRST_SD * math.sqrt(spec.depth) / UNIT
        fill(first, derive_seed(spec.seed, CELLS), scale)
        self.theta[: self.scalars] = first
        self._salts = np.array([derive_seed(spec.seed, side) for side in (USERS, ITEMS)], np.uint64)
        self._scratch = np.zeros(self.size)

    @property
    def size(self) -> int:
        """Return how many numbers are released at a step."""
        return len(self.theta)

    @property
    def slots(self) -> int:
        """Return how many biases there are."""
        return (self.size - self.scalars - 1) // 2

    @property
    def cells(self) -> NDArray[np.float64]:
        """Return the cells of the sketch, a view."""
        return self.theta[: self.scalars]

    @property
    def _layout(self) -> tuple[int, int, int, NDArray[np.uint64]]:
        return self.scalars, self.depth, self.factors, self._salts

    def predict(self, users: Keys, items: Keys) -> NDArray[np.float64]:
        """Return the predicted ratings (m,), within 1 .. 5."""
        out = np.empty(len(users))
        columns = keys_of(users), keys_of(items)
        clipped_gradients.predict(self.theta, *self._layout, *columns, out)
        return np.clip(out, LOWEST, HIGHEST)

    def add_clipped(
        self,
        events: Events,
        rows: NDArray[np.int64],
        norm: float,
        bound: int,
        sums: NDArray[np.int64],
    ) -> int:
        """Add the clipped integer vector of each rating in `rows` of users, items, stars to `sums`.

        A vector has an L2 norm of at most `bound` units, which stand for `norm` stars. Returns how
        many were longer; it is for tests, and not private.
        """
        return int(
            clipped_gradients.add_clipped(
                self.theta, *self._layout, *_columns(events, rows), norm, bound, self._scratch, sums
            )
        )

    def langevin(
        self,
        events: Events,
        rows: NDArray[np.int64],
        noise: NDArray[np.float64],
        eta: float,
        shrink: float,
    ) -> None:
        """Take the printed step of Langevin dynamics for each rating; noise (rows, 2 factors + 2).

        For reproduction: it computes exact numbers from ratings, and nothing makes them private.
        """
        columns = _columns(events, rows)
        clipped_gradients.langevin(self.theta, *self._layout, *columns, noise, eta, shrink)


def _columns(events: Events, rows: NDArray[np.int64]) -> tuple[NDArray[np.generic], ...]:
    """Return the columns as the kernels take them."""
    users, items, stars = events
    columns = keys_of(users), keys_of(items), np.require(stars, np.float64, ["C", "W"])
    return *columns, np.require(rows, np.int64, ["C", "W"])

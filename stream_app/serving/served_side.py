"""An item side made ready for queries: what is the same for every user.

    z     = P (sum over the history of x_i w_i - c)          posterior mean of the user's taste
    w_i   = W_i / D_i,   c = sum_i m_i w_i,   P = (W' D^-1 W + I)^-1

The model is that of `ranking/low_rank.py`; P, w and c do not depend on the user, so a query takes a
fraction of a millisecond. Where presence is protected a history holds noised bits: each
counts debiased, x_i = (bit - q) / (p - q), the bits that are 0 as well as those that are 1, and D_i
is the variance that the model leaves and that of the noise. Links take the posterior of a like.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.ranking.derivation import Derived
from stream_app.ranking.histories import History
from stream_app.ranking.low_rank import posterior_likes
from stream_app.serving.together.co_rated import CoRated

Mask = NDArray[np.bool_]


class HeadScores(NamedTuple):
    """The scores (n,) of every head item for one user and what they are made from, the history
    behind them, and which items (n,) may be shown."""

    scores: NDArray[np.float32]
    basis: str
    history: History
    allowed: Mask


class ServedSide:
    """What was derived, and the co-ratings of the same cut, if there are any. `channel`: (p, q) =
    (P(positive | positive), P(positive | not positive)) where presence is protected."""

    def __init__(
        self,
        derived: Derived,
        channel: tuple[float, float] | None = None,
    ) -> None:
        self.derived, self.side, self.model = derived, derived.side, derived.model
        self.channel = channel
        self._order = np.argsort(self.side.keys, kind="stable")
        self._sorted = self.side.keys[self._order]
        W = self.model.factors.astype(np.float64)
        self._scaled = W / self.model.variance(channel)[:, None]
        self._solved = np.linalg.inv(self._scaled.T @ W + np.eye(W.shape[1]))
        self._lift, self._absent = 1.0, 0.0
        if channel is not None:
            positive, false = channel
            self._lift, self._absent = 1 / (positive - false), -false / (positive - false)
        self._centre = (self.model.rates.astype(np.float64) - self._absent) @ self._scaled
        self.co_rated: CoRated | None = None

    def shared(self) -> ServedSide:
        """Return the same side as an object of its own, whose co-ratings may be replaced."""
        found = ServedSide.__new__(ServedSide)
        found.__dict__.update(self.__dict__)
        return found

    @property
    def memory_bytes(self) -> int:
        """Bytes held."""
        own = (self._order, self._sorted, self._scaled, self._solved)
        size = sum(array.nbytes for array in own) + self._centre.nbytes + self.side.memory_bytes
        size += self.model.factors.nbytes
        return size + (self.co_rated.memory_bytes if self.co_rated else 0)

    def slots_of(self, keys: NDArray[np.uint64]) -> tuple[NDArray[np.intp], Mask]:
        """Return the slot of each item (m,), and whether it has one."""
        if not len(self._sorted):
            return np.zeros(len(keys), np.intp), np.zeros(len(keys), np.bool_)
        places = np.minimum(np.searchsorted(self._sorted, keys), len(self._sorted) - 1)
        return self._order[places], self._sorted[places] == keys

    def history(
        self,
        keys: NDArray[np.uint64],
        weights: NDArray[np.float32],
        visits_ago: NDArray[np.int64],
        ages: NDArray[np.float32],
    ) -> History:
        """Return a history of items `keys` (m,) over the slots of this side; items without one are
        left out."""
        slots, known = self.slots_of(keys)
        return History(slots, weights, visits_ago, ages).at(known)

    def taste(self, history: History) -> NDArray[np.float32]:
        """Return z (r,) of a history; zero for an empty one."""
        if not len(history.slots):
            return np.zeros(len(self._solved), np.float32)
        x = history.weights * self._lift
        found = self._solved @ (x @ self._scaled[history.slots] - self._centre)
        return found.astype(np.float32)

    def scored(self, history: History, taste: NDArray[np.float32]) -> History:
        """Return the history that scores are computed from: where presence is protected, how
        probable it is that the user likes each item of the side."""
        if self.channel is None or not len(history.slots):
            return history
        bits = np.zeros(len(self.side), np.bool_)
        bits[history.slots] = True
        likes = posterior_likes(self.model, taste, bits, self.channel)
        return History.untimed(np.arange(len(self.side)), likes)

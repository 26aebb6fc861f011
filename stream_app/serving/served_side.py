"""An item side made ready for queries: the taste index, and what is the same for every user.

    z     = P (sum over the history of x_i w_i - c)          posterior mean of the user's taste
    w_i   = W_i / D_i,   c = sum_i m_i w_i,   P = (W' D^-1 W + I)^-1
    score = m_i + W_i . z                                    an inner product: any index carries it

The equations are those of `ranking/scores.py`; P, w and c do not depend on the user, so a query
takes a fraction of a millisecond. Where presence is protected a history holds noised bits: each
counts debiased, x_i = (bit - q) / (p - q), the bits that are 0 as well as those that are 1, and D_i
is the variance that the model leaves and that of the noise. Links take the posterior of a like.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.models import retrieval
from stream_app.models.retrieval.faster_index import new_index
from stream_app.ranking.histories import History
from stream_app.ranking.item_side import ItemSide
from stream_app.ranking.scores import Components, component_scores, posterior_likes, variance
from stream_app.serving.together.co_rated import CoRated

Mask = NDArray[np.bool_]
_LOWEST, _HIGHEST = 1.0, 5.0


class ServedSide:
    """One item side with the learner's vectors (n, d) and biases (n,) of its items, as they were
    when it was derived, the learner's `mean`, and the co-ratings of the same cut, if there are any.
    `channel`: (p, q) = (P(positive | positive), P(positive | not positive)) where presence is
    protected."""

    def __init__(
        self,
        side: ItemSide,
        vectors: NDArray[np.float32],
        biases: NDArray[np.float32],
        mean: float,
        channel: tuple[float, float] | None = None,
    ) -> None:
        self.side, self.channel = side, channel
        self._vectors, self._biases, self._mean = vectors, biases, mean
        self._order = np.argsort(side.keys, kind="stable")
        self._sorted = side.keys[self._order]
        W = side.factors.astype(np.float64)
        self._scaled = W / variance(side, channel)[:, None]
        self._solved = np.linalg.inv(self._scaled.T @ W + np.eye(W.shape[1]))
        self._lift, self._absent = 1.0, 0.0
        if channel is not None:
            positive, false = channel
            self._lift, self._absent = 1 / (positive - false), -false / (positive - false)
        self._centre = (side.rates.astype(np.float64) - self._absent) @ self._scaled
        self.index: retrieval.Index | None = None
        self.co_rated: CoRated | None = None

    def shared(self) -> ServedSide:
        """Return the same side as an object of its own, whose co-ratings may be replaced."""
        found = ServedSide.__new__(ServedSide)
        found.__dict__.update(self.__dict__)
        return found

    def build_index(
        self, method: str, code_bits: int, seed: int, level: retrieval.ServiceLevel
    ) -> None:
        """Enter every item into a taste index of this level; there is none without factors."""
        count, factors = self.side.factors.shape
        if factors and count:
            self.index = new_index(method, factors, code_bits, seed)
            self.index.level = level
            self.index.update(np.arange(count), self.side.factors, self.side.rates)

    @property
    def memory_bytes(self) -> int:
        """Bytes held, the index included."""
        own = (self._vectors, self._biases, self._order, self._sorted, self._scaled, self._solved)
        size = sum(array.nbytes for array in own) + self._centre.nbytes + self.side.memory_bytes
        size += self.co_rated.memory_bytes if self.co_rated else 0
        return size + (self.index.memory_bytes if self.index else 0)

    def slots_of(self, keys: NDArray[np.uint64]) -> tuple[NDArray[np.intp], Mask]:
        """Return the slot of each item (m,), and whether it has one."""
        if not len(self._sorted):
            return np.zeros(len(keys), np.intp), np.zeros(len(keys), np.bool_)
        places = np.minimum(np.searchsorted(self._sorted, keys), len(self._sorted) - 1)
        return self._order[places], self._sorted[places] == keys

    def history(self, keys: NDArray[np.uint64], weights: NDArray[np.float32]) -> History:
        """Return the history of items `keys` (m,), newest last, each a like with probability
        `weights` (m,); items without a slot are left out, and age counts where the item side knows
        what follows what."""
        slots, known = self.slots_of(keys)
        ages = np.arange(len(keys), dtype=np.float32)[::-1][known]
        return History(slots[known], weights[known], ages if self.knows_order else None)

    @property
    def knows_order(self) -> bool:
        """Whether the arrival order of ratings says something here."""
        return bool(self.side.next_targets.shape[1])

    def taste(self, history: History) -> NDArray[np.float32]:
        """Return z (r,) of a history; zero for an empty one."""
        if not len(history.slots):
            return np.zeros(len(self._solved), np.float32)
        x = history.recency_weights() * self._lift
        found = self._solved @ (x @ self._scaled[history.slots] - self._centre)
        return found.astype(np.float32)

    def taste_rows(self, history: History) -> NDArray[np.float64]:
        """Return what each item of a history adds to its taste for a weight of 1, (m, r)."""
        rows: NDArray[np.float64] = (self._lift * self._scaled[history.slots]) @ self._solved.T
        return rows

    def debiased(self, bits: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Return unbiased values of reports, where presence is protected."""
        return (bits * self._lift + self._absent).astype(np.float32)

    def components_of_reports(
        self,
        slots: NDArray[np.intp],
        values: NDArray[np.float32],
        vector: NDArray[np.float32],
        bias: float,
    ) -> Components:
        """Return the scores (n,) of every item for the debiased `values` of some cells; of the
        others nothing is known."""
        scaled, W = self._scaled[slots], self.side.factors[slots].astype(np.float64)
        solved = np.linalg.inv(scaled.T @ W + np.eye(W.shape[1]))
        taste = (solved @ ((values - self.side.rates[slots]) @ scaled)).astype(np.float32)
        likes = self._posterior(slots[values > 0], taste)[slots]
        found = component_scores(self.side, History(slots, likes), taste=taste)
        return found._replace(stars=self._stars(vector, bias))

    def _stars(self, vector: NDArray[np.float32], bias: float) -> NDArray[np.float32]:
        stars = self._mean + bias + self._biases + self._vectors @ vector
        return np.clip(stars, _LOWEST, _HIGHEST).astype(np.float32)

    def components(
        self, history: History, vector: NDArray[np.float32], bias: float
    ) -> tuple[Components, NDArray[np.float32]]:
        """Return the scores (n,) of every item for a history and for the learner's `vector` (d,)
        and `bias` of the user, and the taste vector (r,)."""
        taste = self.taste(history)
        found = component_scores(self.side, self._likes(history, taste), taste=taste)
        return found._replace(stars=self._stars(vector, bias)), taste

    def _likes(self, history: History, taste: NDArray[np.float32]) -> History:
        """Return the history as links take it: where presence is protected the probability that
        the user likes each item."""
        if self.channel is None or not len(history.slots):
            return history
        return History(np.arange(len(self.side)), self._posterior(history.slots, taste))

    def _posterior(
        self, positive: NDArray[np.intp], taste: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Return the probability of a like of every item (n,), given which reports are positive."""
        assert self.channel is not None
        bits = np.zeros(len(self.side), np.bool_)
        bits[positive] = True
        return posterior_likes(self.side, taste, bits, self.channel)

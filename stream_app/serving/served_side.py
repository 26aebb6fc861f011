"""An item side made ready for queries: the terms that are the same for every user; the copies of
the state that it is derived from, in another thread; and the measured quality of its lists.

    z     = P (sum over the history of x_i w_i - c)          posterior mean of the user's taste
    w_i   = W_i / D_i,   c = sum_i m_i w_i,   P = (W' D^-1 W + I)^-1

The model is that of `ranking/low_rank.py`; P, w and c do not depend on the user, so a query takes a
fraction of a millisecond. Where presence is protected a history holds noised bits: each
counts debiased, x_i = (bit - q) / (p - q), the bits that are 0 as well as those that are 1, and D_i
is the variance that the model leaves and that of the noise. Links take the posterior of a like.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.models.cooccurrence.snapshots import PairSnapshot
from stream_app.ranking.derivation import Derived, derive
from stream_app.ranking.histories import History
from stream_app.ranking.learned_weights import ALONE, LEAST_EVENTS, MOST_MEASURED, Others
from stream_app.ranking.low_rank import posterior_likes
from stream_app.ranking.visit_events import VisitSample
from stream_app.state.replica import Replica

Mask = NDArray[np.bool_]


class HeadScores(NamedTuple):
    """The scores (n,) of every head item for one user and what they are made from, the history
    behind them, and which items (n,) may be shown."""

    scores: NDArray[np.float32]
    basis: str
    history: History
    allowed: Mask


class ServedSide:
    """What was derived. `channel`: (p, q) = (P(positive | positive), P(positive | not positive))
    where presence is protected."""

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

    @property
    def memory_bytes(self) -> int:
        """Bytes held."""
        own = (self._order, self._sorted, self._scaled, self._solved)
        size = sum(array.nbytes for array in own) + self._centre.nbytes + self.side.memory_bytes
        return size + self.model.factors.nbytes

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


@dataclass(frozen=True, eq=False)
class Ingredients:
    """What goes together among n head items, samples of devices for the two lists, and what the
    average user is predicted to rate them (n,); what the other shards found for the two lists."""

    snapshot: PairSnapshot
    visits: tuple[VisitSample, VisitSample] | None
    ratings: NDArray[np.float32]
    others: Others = ALONE

    @classmethod
    def taken_from(cls, replica: Replica) -> Ingredients | None:
        """Return copies of what the state holds; None before the first pair."""
        snapshot = replica.pair_snapshot()
        if snapshot is None:
            return None
        shared = replica.shared
        _, biases = replica.learner.items(snapshot.keys)
        return cls(
            snapshot,
            replica.visit_samples() if snapshot.channel is None else None,
            np.clip(replica.learner.mean + biases, 1, 5).astype(np.float32),
            ALONE if shared is None else Others(replica.spec.shards, shared.others_fits()),
        )

    @property
    def measured_ratings(self) -> int:
        """How many ratings the visits hold on which lists are measured, the newest first."""
        return 0 if self.visits is None else int(self.visits[0].present[:MOST_MEASURED].sum())

    def derived(self, previous: Derived | None = None) -> ServedSide:
        """Return the item side, ready for queries; `previous` makes the factors cheaper to find."""
        counts = self.snapshot.counts()
        found = derive(counts, self.ratings, self.visits, previous, self.others)
        return ServedSide(found, counts.channel)


POPULAR = "popular"


@dataclass(frozen=True)
class ServedMethod:
    """nDCG@10 of lists for the next visit on what devices liked there, and that of popular items;
    None where it cannot be measured, and `absent` says why. `basis`: `learned` weights or `links`,
    or `popular` items as long as there is no item side."""

    ndcg: float | None = None
    ndcg_popular: float | None = None
    absent: str = "nothing is counted yet"
    basis: str = POPULAR

    @classmethod
    def measured(cls, derived: Derived, *, public: bool) -> ServedMethod:
        """Return the standing of lists for the next visit; `public`: whether presence is."""
        learned, absent = derived.next, ""
        if not public:
            absent = "presence is protected: a later visit cannot be seen"
        elif learned.ndcg is None:
            absent = f"{learned.devices} devices with a second visit: {LEAST_EVENTS} are needed"
        basis = "links" if derived.side.link_targets.shape[1] else POPULAR
        basis = "learned" if len(learned.weights) else basis
        return cls(_rounded(learned.ndcg), _rounded(learned.ndcg_popular), absent, basis)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)

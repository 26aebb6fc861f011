"""All that an item side is derived from, taken at a cut; derived in another thread."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_app.models.cooccurrence.co_rating_snapshot import CoRatingSnapshot
from stream_app.models.cooccurrence.pair_snapshot import PairSnapshot
from stream_app.ranking.derivation import Derived, derive
from stream_app.ranking.similarity import COSINE
from stream_app.ranking.visit_events import VisitSample
from stream_app.serving.served_side import ServedSide
from stream_app.serving.together.co_rated import CoRated
from stream_app.state.replica import Replica


@dataclass(frozen=True, eq=False)
class Ingredients:
    """What goes together among n head items, samples of devices for the two lists, and what the
    average user is predicted to rate them (n,); the co-ratings, where the state has them, for lists
    by `method`."""

    snapshot: PairSnapshot
    visits: tuple[VisitSample, VisitSample] | None
    ratings: NDArray[np.float32]
    co_ratings: CoRatingSnapshot | None = None
    method: str = COSINE

    @classmethod
    def taken_from(
        cls, replica: Replica, method: str | None = None, *, co_ratings: bool = True
    ) -> Ingredients | None:
        """Return copies of what the state holds; None before the first pair. Without `co_ratings`
        those are left out: a public table takes their place."""
        snapshot = replica.pair_snapshot()
        if snapshot is None:
            return None
        _, biases = replica.learner.items(snapshot.keys)
        return cls(
            snapshot,
            replica.visit_samples() if snapshot.channel is None else None,
            np.clip(replica.learner.mean + biases, 1, 5).astype(np.float32),
            replica.co_rating_snapshot() if co_ratings else None,
            method or COSINE,
        )

    def derived(self, previous: Derived | None = None) -> ServedSide:
        """Return the item side, ready for queries; `previous` makes the factors cheaper to find."""
        counts = self.snapshot.counts()
        found = derive(counts, self.ratings, self.visits, previous=previous)
        served = ServedSide(found, counts.channel)
        if self.co_ratings is not None:
            served.co_rated = CoRated(self.co_ratings.table(), self.method)
        return served

"""Several workers that share the ratings, as one learner: what dividing them costs in accuracy.

    ratings --user--> shard s: user rows of its own, and what it has learned of items
    every few ratings: item rows and the overall mean are joined, and every shard goes on with them

Ratings of all shards together are counted (`Meetings`), in the order of the stream, so that the
state is a function of the ratings and not of how they were cut into batches.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from stream_app.models.factorization.channels import NO_CHANNEL
from stream_app.models.factorization.dense import DenseLearner
from stream_app.models.factorization.hybrid import HybridLearner
from stream_app.models.factorization.joining import Meetings, joined, joined_mean
from stream_app.models.factorization.learner import ITEM, Keys, Learner, UpdateResult
from stream_app.models.factorization.transfer import Known

_Rows = DenseLearner | HybridLearner
_UNRATED = np.array([0, 1, 1], np.float32)  # bias, and shares of the first variances
_SPREAD, _HIGH = np.uint64(0x9E3779B97F4A7C15), np.uint64(40)


class ShardedLearner:
    """Learns as `shards` workers of which each has the ratings of its users.

    `build` returns a fresh learner; ValueError for one whose cells are sums of many items.
    """

    def __init__(
        self, build: Callable[[], Learner], shards: int, meetings: Meetings | None = None
    ) -> None:
        made = [build() for _ in range(shards + 1)]
        rows = [each for each in made if isinstance(each, DenseLearner | HybridLearner)]
        if len(rows) < len(made):
            raise ValueError(
                f"model {made[0].name}: its cells are sums of many items, which shards cannot "
                "join; choose hybrid or dense"
            )
        self._common, *self._shards = rows  # what all know together, and each
        self.name = f"{self._common.name}, {shards} shards"
        self._meetings = meetings or Meetings()
        self._ratings, self._left = 0, self._meetings.after(0)
        self._changed: list[Keys] = []

    def learn_many(
        self,
        users: Keys,
        items: Keys,
        reports: NDArray[np.uint8],
        channels: NDArray[np.uint16],
        learn: NDArray[np.bool_],
        priors: NDArray[np.floating] | None = None,
    ) -> UpdateResult:
        """Predict, decode and learn each rating in its user's shard; see `Learner`."""
        update, first = UpdateResult.empty(len(users)), 0
        while first < len(users):
            last = int(np.searchsorted(np.cumsum(learn[first:]), self._left))
            rows = np.arange(first, min(first + last + 1, len(users)))
            for shard, own in self._divided(users[rows]):
                part = rows[own]
                given = None if priors is None else priors[part]
                found = shard.learn_many(
                    users[part], items[part], reports[part], channels[part], learn[part], given
                )
                for all_of_them, some in zip(update, found, strict=True):
                    all_of_them[part] = some
            self._count(items[rows][learn[rows]])
            first += len(rows)
        return update

    def predict_many(self, users: Keys, items: Keys) -> NDArray[np.float64]:
        """Return the predicted ratings, within 1 .. 5."""
        zeros = np.zeros(len(users), np.uint8)
        none = np.full(len(users), NO_CHANNEL, np.uint16)
        return self.learn_many(users, items, zeros, none, zeros.view(np.bool_)).predicted

    def _divided(self, users: Keys) -> list[tuple[_Rows, NDArray[np.bool_]]]:
        """Return each shard that has some of the users, with which ones."""
        place = ((users * _SPREAD) >> _HIGH) % np.uint64(len(self._shards))
        return [(self._shards[s], place == s) for s in np.unique(place).tolist()]

    def _count(self, learned: Keys) -> None:
        self._ratings += len(learned)
        self._left -= len(learned)
        self._changed.append(learned)
        if self._left == 0:
            self._meet(np.unique(np.concatenate(self._changed)))
            self._changed, self._left = [], self._meetings.after(self._ratings)

    def _meet(self, items: Keys) -> None:
        """Join what the shards have learned of the items; each goes on with what all know.

        An item without a row of its own in the common table, or in a shard, stays out.
        """
        common = self._common
        new = items[~common.has_rows(items, ITEM)]
        common.enter(new, ITEM, None, np.tile(_UNRATED, (len(new), 1)))
        items = items[common.has_rows(items, ITEM)]
        before = Known(items, common.items(items)[0], common.scalars_of(items, ITEM))
        after = [_known(shard, before) for shard in self._shards]
        mean = joined_mean(common.overall, [shard.overall for shard in self._shards])
        together = joined(before, after)
        for learner in (common, *self._shards):
            learner.enter(items, ITEM, together.vectors, together.scalars)
            learner.set_mean(mean)


def _known(learner: _Rows, before: Known) -> Known:
    """Return what a shard knows of items, `before` of those of which it has no row."""
    own = learner.has_rows(before.keys, ITEM)[:, None]
    vectors, scalars = learner.items(before.keys)[0], learner.scalars_of(before.keys, ITEM)
    return Known(
        before.keys,
        np.where(own, vectors, before.vectors),
        np.where(own, scalars, before.scalars),
    )

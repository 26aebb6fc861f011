"""Prequential quality of lists: what would have been shown, against what the user liked next.

    batch --before it is applied--> a few (device, item) pairs, chosen by a keyed hash
          --after-->                those whose report says "liked", with the scores of before
    scores --off the learning thread--> rank of the item under every method --> OnlineChoice

Only released reports are looked at: an item counts as liked where the posterior probability of a
like, given the report, is at least one half. A user without a history gets popular items by every
method and says nothing about their difference. Where presence is protected most positive
reports are fakes, and `message_samples.py` measures in place of this.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.ranking.histories import History
from stream_app.ranking.online_choice import OnlineChoice
from stream_app.ranking.pair_counts import LIKED
from stream_app.serving.recommender import Recommender
from stream_app.serving.served_side import ServedSide
from stream_app.wire import Batch, user_key

SHARE = 1 / 4
# Odd multipliers: multiplicative hashing (Knuth 1998, section 6.4), which numpy wraps at 2^64.
_USERS, _ITEMS = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1342543DE82EF95)


class ListSample(NamedTuple):
    """One item that a user liked, and all that a list for this user is made from: history, the
    learner's vector (d,) and bias, which slots (n,) could be shown."""

    served: ServedSide
    target: int
    history: History
    vector: NDArray[np.float32]
    bias: float
    allowed: NDArray[np.bool_]

    def score(self, choice: OnlineChoice) -> None:
        """Rank the item by every method."""
        components, _ = self.served.components(self.history, self.vector, self.bias)
        choice.observe(self.target, components, self.allowed)


class Pending(NamedTuple):
    """A sample whose report is not applied yet."""

    device: bytes
    item: int
    sample: ListSample


def before(recommender: Recommender, served: ServedSide, batch: Batch, most: int) -> list[Pending]:
    """Return at most `most` samples of a batch that is not applied yet."""
    found = []
    for record, item in _chosen(batch, most, recommender.replica.pairs.reported_mechanism):
        slots, known = served.slots_of(batch.items[item : item + 1])
        if known[0]:
            device = batch.devices[record].astype("<u8").tobytes()
            sample = _sample(recommender, served, device, int(slots[0]))
            if sample is not None:
                found.append(Pending(device, int(batch.items[item]), sample))
    return found


def after(recommender: Recommender, pending: list[Pending]) -> list[ListSample]:
    """Return the samples whose report was applied and says that the item is liked."""
    found = []
    for device, item, sample in pending:
        keys, weights = recommender.replica.history(device)
        if (weights[keys == np.uint64(item)] >= LIKED).any():
            found.append(sample)
    return found


def _chosen(batch: Batch, most: int, protected: int = -1) -> list[tuple[int, int]]:
    """Return (record, rating) of at most `most` pairs of the keyed share, spread over the batch."""
    users = np.repeat(batch.devices[:, 0], batch.counts)
    hashes = (users * _USERS + batch.items) * _ITEMS
    public = np.repeat(batch.mechanisms != protected, batch.counts)
    ratings = np.flatnonzero(public & (hashes < np.uint64(int(SHARE * 2.0**64))))
    if len(ratings) > most:
        ratings = ratings[np.arange(most) * len(ratings) // most]
    records = np.searchsorted(np.cumsum(batch.counts), ratings, side="right")
    return list(zip(records.tolist(), ratings.tolist(), strict=True))


def _sample(
    recommender: Recommender, served: ServedSide, device: bytes, target: int
) -> ListSample | None:
    """Return a sample; None for a device without history, or an item that it could not get."""
    history = recommender.history(device, served)
    if not len(history.slots):
        return None
    allowed = recommender.allowed_slots(user_key(device), served)
    if not allowed[target]:
        return None
    users = np.array([user_key(device)], np.uint64)
    vectors, biases = recommender.replica.learner.users(users)
    return ListSample(served, target, history, vectors[0], float(biases[0]), allowed)

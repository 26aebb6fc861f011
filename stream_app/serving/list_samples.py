"""Prequential quality of lists: what would have been shown, against what the user liked next.

    batch --before it is applied--> a few (device, item) pairs, chosen by a keyed hash
          --after-->                those reported as "liked", with what the device had by then
    scores --off the learning thread--> rank of the item under every method --> OnlineChoice

The history is all that arrived before the item, in the same batch or record, too: a bulk replay
brings a whole session at a time, and the measurement must not depend on how the log is cut. Items
rated before it are not shown. The item side and the learner's vector are those of before the batch,
so nothing that they know was learned from the item.

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
from stream_app.ranking.online_choice import OnlineChoice, rank
from stream_app.ranking.pair_counts import LIKED
from stream_app.serving.recommender import Recommender
from stream_app.serving.served_side import ServedSide
from stream_app.serving.together.co_rated import RatedItems
from stream_app.serving.together.measured import Measured
from stream_app.wire import Batch, user_key

SHARE = 1 / 4
# Odd multipliers: multiplicative hashing (Knuth 1998, section 6.4), which numpy wraps at 2^64.
_USERS, _ITEMS = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1342543DE82EF95)


class ListSample(NamedTuple):
    """One item that a user liked, and all that a list for this user is made from: history, the
    learner's vector (d,) and bias, which slots (n,) could be shown, and what was rated with which
    stars, where the state has co-ratings."""

    served: ServedSide
    target: int
    history: History
    vector: NDArray[np.float32]
    bias: float
    allowed: NDArray[np.bool_]
    rated: RatedItems | None = None

    def score(self, choice: OnlineChoice) -> None:
        """Rank the item by every method."""
        components, _ = self.served.components(self.history, self.vector, self.bias)
        choice.observe(self.target, components, self.allowed)

    def score_by_co_ratings(self, measured: Measured) -> None:
        """Rank the item by the co-ratings, where the user has rated an item of them."""
        table = self.served.co_rated
        if table is None or self.rated is None or not self.rated.known:
            return
        if not np.array_equal(table.keys, self.served.side.keys):  # of another feed
            return
        scores = table.scores(self.rated)[self.allowed].astype(np.float64)
        measured.observe(rank(scores, int(np.count_nonzero(self.allowed[: self.target]))))


class Pending(NamedTuple):
    """An item whose report is not applied yet: its slot, the learner's vector (d,) and bias of the
    user from before the batch, and which slots (n,) a list could show just before the item."""

    served: ServedSide
    device: bytes
    item: int
    target: int
    vector: NDArray[np.float32]
    bias: float
    allowed: NDArray[np.bool_]


def before(recommender: Recommender, served: ServedSide, batch: Batch, most: int) -> list[Pending]:
    """Return at most `most` items of a batch that is not applied yet."""
    protected, found = recommender.replica.pairs.reported_mechanism, []
    for record, place in _chosen(batch, most, protected):
        slots, known = served.slots_of(batch.items[place : place + 1])
        device = batch.devices[record].astype("<u8").tobytes()
        # A duplicate is in the seen filter: it must not cost a look at all slots.
        if known[0] and not _seen(recommender, device, batch.items[place : place + 1]):
            allowed = recommender.allowed_slots(user_key(device), served)
            allowed[_rated_earlier(served, batch, record, place, protected)] = False
            if allowed[slots[0]]:
                item, target = int(batch.items[place]), int(slots[0])
                user = _user(recommender, device)
                found.append(Pending(served, device, item, target, *user, allowed))
    return found


def after(recommender: Recommender, pending: list[Pending]) -> list[ListSample]:
    """Return the samples whose report was applied and says that the item is liked."""
    samples = (_sample(recommender, item) for item in pending)
    return [sample for sample in samples if sample is not None]


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


def _rated_earlier(
    served: ServedSide, batch: Batch, record: int, place: int, protected: int
) -> NDArray[np.intp]:
    """Return the slots of what the device of a record has rated in the batch before `place`."""
    own = (batch.devices == batch.devices[record]).all(1) & (batch.mechanisms != protected)
    items = batch.items[:place][np.repeat(own, batch.counts)[:place]]
    slots, known = served.slots_of(items)
    return slots[known]


def _seen(recommender: Recommender, device: bytes, items: NDArray[np.uint64]) -> bool:
    users = np.array([user_key(device)], np.uint64)
    return bool(recommender.replica.seen.test_many(users, items)[0])


def _user(recommender: Recommender, device: bytes) -> tuple[NDArray[np.float32], float]:
    """Return the learner's vector (d,) and bias of a user."""
    users = np.array([user_key(device)], np.uint64)
    vectors, biases = recommender.replica.learner.users(users)
    return vectors[0], float(biases[0])


def _sample(recommender: Recommender, pending: Pending) -> ListSample | None:
    """Return the sample of an item; None unless it is liked and the device had items before it."""
    served = pending.served
    keys, weights = recommender.reports(pending.device, served)
    places = np.flatnonzero(keys == np.uint64(pending.item))
    if not len(places) or weights[places[0]] < LIKED:
        return None
    history = served.history(keys[: places[0]], weights[: places[0]])
    if not len(history.slots):
        return None
    rated = _rated(recommender, pending) if recommender.listed_by else None
    return ListSample(
        served, pending.target, history, pending.vector, pending.bias, pending.allowed, rated
    )


def _rated(recommender: Recommender, pending: Pending) -> RatedItems | None:
    """Return what the device had rated before the item; None where the state does not hold it."""
    table = pending.served.co_rated
    keys, stars = recommender.rated(pending.device)
    places = np.flatnonzero(keys == np.uint64(pending.item))
    if table is None or not len(places):
        return None
    return table.rated(keys[: places[0]], stars[: places[0]])

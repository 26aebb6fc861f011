"""Private lists of ten as a worker draws them, on MovieLens-1M: overlap and nDCG by epsilon.

The state has each user's first four fifths in time order. Overlap is with the ten best of the same
scores. nDCG@10 is against the likes (4 and 5 stars) of the last fifth, of what is left of a list
when the asker's device leaves out what was rated, the most rated first; beside the ten most rated
items of all, treated alike, and the list without noise. `by cosine`: scores that are the mean of
damped cosines, beta = 300, without a cap. Damping and cap were chosen on the first half of the
users, in an order that is drawn; the figures are of a thousand of the second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app import wire
from stream_app.models.cooccurrence.co_ratings import always_held
from stream_app.privacy import registry
from stream_app.privacy.k_subset import KSubset
from stream_app.privacy.randomness import SeededSource
from stream_app.serving.together import private_lists
from stream_app.state.replica import Replica
from stream_app.state.spec import StateSpec
from stream_app.wire import Event, RecordRun, decode_many
from tests.benchmarks.figure import Figure
from tests.fixtures.movielens import Ratings, load, skipped

K, USERS, RECENT, HEAD, EPSILONS = 10, 1_000, 128, 4_096, (1, 2, 4, 8, 16)
MECHANISM, EACH, RUN = "none:5:inf", 200, 250
_DISCOUNTS = 1 / np.log2(np.arange(2, K + 2))
Items = NDArray[np.int64]


class Asker(NamedTuple):
    """Places of the items that a user had rated, and of those liked later."""

    user: int
    rated: Items
    liked: Items


def measure() -> list[Figure]:
    """Return overlap and nDCG@10 of served lists, one draw a user and epsilon."""
    ratings = load()
    if ratings is None:
        return skipped("private lists on real ratings")
    keys, items = np.unique(ratings.items, return_inverse=True)
    askers, earlier = _askers(ratings, items)
    replica = _replica(ratings, earlier)
    rated = np.argsort(np.argsort(-np.bincount(items[earlier]), kind="stable"))
    known = [private_lists.counts(replica, each.user.to_bytes(16, "little")) for each in askers]
    lists = {
        "private list": (
            [private_lists.scores(each, keys) for each in known],
            lambda epsilon: private_lists.mechanism(RECENT, K, epsilon),
        ),
        "the same by cosine": (
            [private_lists.scores(each, keys, 300.0, 1.0) for each in known],
            lambda epsilon: KSubset(
                K, epsilon, 1 + always_held(RECENT) / 301, 0.0, float(always_held(RECENT)), 1e-9
            ),
        ),
    }
    figures = [
        Figure("the ten most rated: nDCG@10", _ndcg(askers, rated, [np.argsort(rated)[:K]]), "")
    ]
    for name, (scores, mechanism) in lists.items():
        figures += _figures(name, scores, mechanism, askers, rated)
    return figures


def _figures(
    name: str,
    scores: Sequence[NDArray[np.float64]],
    mechanism: Callable[[Fraction], KSubset],
    askers: Sequence[Asker],
    rated: Items,
) -> list[Figure]:
    best = [np.argsort(-each, kind="stable")[:K] for each in scores]
    figures = [Figure(f"{name}, no noise: nDCG@10", _ndcg(askers, rated, best), "")]
    source = SeededSource(1)
    for epsilon in EPSILONS:
        subset = mechanism(Fraction(epsilon))
        drawn = [subset.release(each, source) for each in scores]
        shared = [len(np.intersect1d(*pair)) / K for pair in zip(drawn, best, strict=True)]
        figures += [
            Figure(f"{name}, epsilon {epsilon}: overlap", float(np.mean(shared)), ""),
            Figure(f"{name}, epsilon {epsilon}: nDCG@10", _ndcg(askers, rated, drawn), ""),
        ]
    return figures


def _ndcg(askers: Sequence[Asker], rated: Items, lists: Sequence[Items]) -> float:
    """Return the mean of what is left of the lists, or of the one list for all."""
    every: Iterable[Items] = lists if len(lists) > 1 else [lists[0]] * len(askers)
    found = []
    for asker, places in zip(askers, every, strict=True):
        left = places[~np.isin(places, asker.rated)]
        hits = np.isin(left[np.argsort(rated[left])], asker.liked)
        most = _DISCOUNTS[: len(asker.liked)].sum()
        found.append((hits * _DISCOUNTS[: len(left)]).sum() / most)
    return float(np.mean(found))


def _askers(ratings: Ratings, items: Items) -> tuple[list[Asker], Items]:
    """Return the users of the figures, and the rows (n,) of all users' first four fifths, by user
    and in time order."""
    order = np.argsort(ratings.users, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(ratings.users[order])) + 1)
    cuts = [int(len(rows) * 0.8) for rows in parts]
    askers = []
    for place in np.random.default_rng(5).permutation(len(parts)).tolist():
        rows, cut = parts[place], cuts[place]
        liked = items[rows[cut:]][ratings.levels[rows[cut:]] >= 3]
        if len(liked):
            askers.append(Asker(int(ratings.users[rows[0]]), items[rows[:cut]], liked))
    earlier = np.concatenate([rows[:cut] for rows, cut in zip(parts, cuts, strict=True)])
    return askers[len(askers) // 2 :][:USERS], earlier


def _replica(ratings: Ratings, rows: Items) -> Replica:
    """Return a state of the rows, which are by user."""
    spec = StateSpec(
        (registry.parse(MECHANISM),),
        partitions=1,
        head_items=HEAD,
        recent_items=RECENT,
        co_ratings=True,
    )
    keys, values = list[bytes](), list[bytes]()
    for own in np.split(rows, np.flatnonzero(np.diff(ratings.users[rows])) + 1):
        user = int(ratings.users[own[0]]).to_bytes(16, "little")
        for seq, at in enumerate(range(0, len(own), EACH), 1):
            part = own[at : at + EACH]
            event = Event(user, seq, MECHANISM, 0, ratings.items[part], ratings.levels[part])
            keys.append(event.key)
            values.append(wire.encode(event))
    replica = Replica(spec)
    for at in range(0, len(keys), RUN):
        end = min(at + RUN, len(keys))
        run = RecordRun(0, range(at, end), keys[at:end], values[at:end])
        replica.apply(decode_many(run, spec.intake))
        replica.end_round(1 + at // RUN, [end])
    assert not private_lists.elected(replica)
    return replica

"""Accuracy of a campaign: a person's taste stays on the device, the server learns from noisy sums.

>>> from fractions import Fraction
>>> users = [user for user in range(60) for _ in range(12)]
>>> items = [(user % 3 + 3 * k + user) % 40 for user in range(60) for k in range(12)]
>>> ratings = [1 + (user + item) % 5 for user, item in zip(users, items)]
>>> result = campaign_lists((users, items, ratings, range(720)), "central", Fraction(4))
>>> result.people, result.epsilon
(60, 4.0)
>>> 0 <= result.ndcg <= 1
True

`epsilon` covers everything that a person has rated, at delta 1e-6. The noise comes from a seed, so
that a figure can be repeated; nothing is sent.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from murmurec.common import Progress
from murmurec.ranking import days_of, least_like, shuffled
from murmurec.ratings import Ratings, columns_of, item_keys, user_keys
from producers.datasets.descriptions import Metadata
from stream_app import wire
from stream_app.campaigns.features import features_of
from stream_app.evaluation import campaigns, ranking
from stream_app.evaluation.campaigns import DELTA, MODES, Budget, CampaignLists, ListOptions

DEFAULTS = ListOptions()
FeaturesOf = Callable[[NDArray[np.uint64]], NDArray[np.float64]]


def campaign_lists(
    ratings: Ratings,
    mode: str,
    epsilon: Fraction,
    options: ListOptions = DEFAULTS,
    *,
    metadata: Metadata | None = None,
    seed: int = 0,
    progress: Progress = lambda done, total: None,  # noqa: ARG005 (a silent default)
) -> CampaignLists:
    """Let every person contribute what was rated earlier, and compare the lists with later likes.

    mode: `"central"` or `"split"`. metadata: genres and year by item id, which then are public
    features. The others are as for `murmurec.evaluate_ranking`. Raises ValueError for arguments out
    of range, invalid ratings, none to test with, or metadata of none of the items.
    """
    budget = budget_of(mode, epsilon)
    data = columns_of(ratings, None)
    if not 0 <= seed < 2**63:
        raise ValueError(f"seed {seed}: give a number from 0 to 2^63-1")
    in_time = data.timestamps is not None
    if not in_time:
        data = shuffled(data, seed)
    users, items = user_keys(data.users), item_keys(data.items)
    liked = data.ratings >= least_like(None, data)
    task = ranking.ranking_task(
        users, items, data.ratings, liked, options.split, seed, days_of(data)
    )
    people, done = len(task.users), 0

    def add(more: int) -> None:
        nonlocal done
        done += more
        progress(done, people)

    return campaigns.evaluate_lists(
        task,
        budget,
        options,
        stars=1 + 4 * data.levels[task.rows] / (data.scale.levels - 1),
        features=None if metadata is None else _features(items, metadata),
        in_time=in_time,
        seed=seed,
        progress=add,
    )


def _features(items: NDArray[np.uint64], metadata: Metadata) -> FeaturesOf:
    """Return the function from keys of the data's items to their features."""
    known = {wire.key(item): about for item, about in metadata.items()}
    if known.keys().isdisjoint(items.tolist()):
        raise ValueError("metadata: of none of the items; their ids are those of the ratings")

    def features(keys: NDArray[np.uint64]) -> NDArray[np.float64]:
        return features_of([known.get(key, ((), None)) for key in keys.tolist()])

    return features


def budget_of(mode: str, epsilon: Fraction) -> Budget:
    """Return a person's budget under a mode; ValueError for an unknown mode."""
    if mode not in MODES:
        raise ValueError(f"mode {mode}: choose {' or '.join(MODES)}")
    return Budget(epsilon, DELTA, mode)

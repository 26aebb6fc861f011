"""What X-Map is compared with, for users who rated nothing in the target domain.

    item mean      the mean rating of the item; no user is like another
    popularity     the number of ratings, for lists; its ratings are the item means
    offset         item mean + how far the user's source ratings are from the means of their items
    factorization  one matrix factorization of both domains (the learner `dense`, some passes)

All of them are clean: nothing is noised, nothing is protected.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from research.xmap.alter_ego import offset_of
from research.xmap.task import Cold, ColdTask
from stream_app.models.baselines.learners import build
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.learner import LearnerSpec
from stream_app.privacy.ratings.identity import Identity

PASSES = 12
FACTORS = 16
_LEVELS = 9  # half stars, 1 .. 5


class Prediction(NamedTuple):
    """Of one user: ratings (m,) in stars, 1 .. 5, and scores (m,) that order a list."""

    ratings: NDArray[np.float64]
    scores: NDArray[np.float64]


def item_mean(task: ColdTask) -> list[Prediction]:
    """Return the plain item means for each cold user; lists go by the shrunken means."""
    return [Prediction(task.plain_means, task.target_means)] * len(task.cold)


def popularity(task: ColdTask) -> list[Prediction]:
    """Return lists by the number of ratings."""
    counts = task.target.present.sum(axis=0).astype(np.float64)
    return [Prediction(task.plain_means, counts)] * len(task.cold)


def offset(task: ColdTask) -> list[Prediction]:
    """Return item means moved by each user's own offset; lists are those of popularity."""
    counts = task.target.present.sum(axis=0).astype(np.float64)
    return [
        Prediction((task.target_means + user_offset(task, each)).clip(1, 5), counts)
        for each in task.cold
    ]


def user_offset(task: ColdTask, cold: Cold) -> float:
    """Return how far a cold user rates from the source item means, shrunken to 0, in stars."""
    return offset_of(cold.stars, task.source_means[cold.items])


def factorization(task: ColdTask, seed: int = 0) -> list[Prediction]:
    """Return what a factorization of all learned ratings predicts."""
    data, levels = task.data, np.rint(2 * (task.data.stars - 1)).astype(np.uint8)
    sizes = data.people + data.sources + data.targets
    spec = LearnerSpec(
        factors=FACTORS, seed=seed, sketch_bytes=4 * FACTORS * sizes, scalars_bytes=64 * sizes
    )
    learner = build("dense", Channels.from_mechanisms([Identity(_LEVELS)]), spec)
    users, items = data.users.astype(np.uint64), data.items.astype(np.uint64)
    random = np.random.default_rng((seed, 1))
    for _ in range(PASSES):
        rows = random.permutation(task.learned)
        fixed = np.zeros(len(rows), np.uint16), np.ones(len(rows), np.bool_)
        learner.learn_many(users[rows], items[rows], levels[rows], *fixed)
    targets = np.arange(data.sources, data.sources + data.targets).astype(np.uint64)
    found = [
        learner.predict_many(np.full(data.targets, each.user, np.uint64), targets)
        for each in task.cold
    ]
    return [Prediction(ratings, ratings) for ratings in found]

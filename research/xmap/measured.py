"""All methods side by side on cold users: MAE of ratings, nDCG@10 of lists.

MAE is over all held-out ratings; nDCG@10 over the cold users with a relevant item, of lists of the
whole target domain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from research.xmap import methods
from research.xmap.methods import Prediction
from research.xmap.task import RELEVANT, ColdTask
from research.xmap.x_map import Corrected, XMapOptions, by_agreement, clean
from stream_app.evaluation.ranking.list_quality import ndcg

PLACES = 10
EPSILONS = (1.0, 4.0, 16.0, math.inf)

Progress = Callable[[int, int], object]


@dataclass(frozen=True)
class Measured:
    """A method on one split. epsilon: of a whole reply, for all ratings of another person; None
    where nothing is protected. mae in stars."""

    method: str
    epsilon: float | None
    mae: float
    ndcg: float


def errors(task: ColdTask, found: Sequence[Prediction]) -> tuple[float, float]:
    """Return MAE and nDCG@10 of the predictions for each cold user."""
    missed = [
        np.abs(each.ratings[cold.held] - cold.truth)
        for each, cold in zip(found, task.cold, strict=True)
    ]
    lists = np.array([_best(each) for each in found])
    relevant = [cold.held[cold.truth >= RELEVANT] for cold in task.cold]
    return float(np.concatenate(missed).mean()), ndcg(lists, relevant)


def compare(
    task: ColdTask,
    epsilons: Sequence[float] = EPSILONS,
    options: XMapOptions | None = None,
    progress: Progress = lambda done, total: None,  # noqa: ARG005 (a silent default)
) -> list[Measured]:
    """Return every method, the corrected X-Map at each epsilon of a whole reply (inf: no noise).

    `progress` is called with the methods done and their number.
    """
    options = options or XMapOptions()
    corrected = Corrected(task, options.damping)
    runs: list[tuple[str, float | None, Callable[[], list[Prediction]]]] = [
        ("item mean", None, partial(methods.item_mean, task)),
        ("popularity", None, partial(methods.popularity, task)),
        ("user's offset", None, partial(methods.offset, task)),
        ("factorization of both", None, partial(methods.factorization, task, options.seed)),
        ("X-Map clean", None, partial(clean, task, options)),
        ("X-Map by agreement", None, partial(by_agreement, task)),
    ]
    for each in epsilons:
        bound = None if each == math.inf else each
        runs.append(("X-Map corrected", bound, partial(corrected.predict, options, each)))
    measured = []
    for done, (name, epsilon, run) in enumerate(runs):
        progress(done, len(runs))
        measured.append(Measured(name, epsilon, *errors(task, run())))
    progress(len(runs), len(runs))
    return measured


def _best(found: Prediction) -> np.ndarray:
    """Return the places of the best items, by score; ties by the order of items."""
    size = min(PLACES, len(found.scores))
    best = np.argsort(-found.scores, kind="stable")[:size]
    return np.concatenate([best, np.full(PLACES - size, -1)])

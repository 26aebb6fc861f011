"""One pass where presence is protected: every user sends every cell of a public scope, once.

    cells      users x scope; a cell holds the rating if it is among the learned 80 %, else nothing
    devices    in random order, one record each, the cells in random order
    learner    published cells alone; the others update presence rates alone (`presence_rates.py`)
    test       the true ratings of the last 10 % that lie in the scope

Likes have no ratings to test: all cells hold their bit, which is predicted and then learned
(`likes.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.evaluation.baselines import item_means
from stream_app.evaluation.likes import evaluate_likes
from stream_app.evaluation.results import EvaluationData, EvaluationResult, rms, split
from stream_app.evaluation.scope_cells import Batch, ScopeCells, most_rated_items
from stream_app.models.factorization.learner import Learner
from stream_app.models.factorization.presence_rates import PresenceRates, learn_from
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.randomness import RandomSource
from stream_app.privacy.ratings.like import Like


class ScopeDevices(NamedTuple):
    """Levels (n,) of the true ratings, the mechanism that hides them, and the size of the scope."""

    levels: NDArray[np.uint8]
    mechanism: Mechanism
    source: RandomSource
    scope: int = 300


def evaluate_scope(
    data: EvaluationData,
    devices: ScopeDevices,
    learner: Learner,
    presence: PresenceRates,
    *,
    seed: int = 0,
    progress: Callable[[int], None] = lambda events: None,  # noqa: ARG005 (a silent default)
) -> EvaluationResult:
    """Return the errors of a fresh `learner`; the devices' mechanism is its channel 0.

    `progress` is called with the number of cells just completed; there are users times
    `scope`.
    """
    (users, items, truth), (levels, mechanism, source, scope) = data, devices
    if mechanism.inputs == mechanism.levels:
        raise ValueError(f"{mechanism.id}: presence is public; evaluate its ratings one by one")
    chosen = most_rated_items(items, scope)
    rows = np.flatnonzero(np.isin(items, chosen))
    people = np.unique(users)
    if isinstance(mechanism, Like):
        rated = users[rows], items[rows], levels[rows]
        cells = ScopeCells.holding(people, chosen, rated, mechanism.levels)
        return evaluate_likes(cells, mechanism, source, learner, seed=seed, progress=progress)
    parts = (part[np.isin(part, rows)] for part in split(len(users), seed))
    learned, _, tested = parts
    if not len(learned) or not len(tested):
        raise ValueError(f"scope {scope}: too few ratings in it to learn and to test")
    rated = users[learned], items[learned], levels[learned]
    cells = ScopeCells.holding(people, chosen, rated, mechanism.levels)
    seconds, published = 0.0, 0
    learner.predict_many(users[:1], items[:1])  # compiles the kernels before timing
    for batch in cells.sent(mechanism, source, seed):
        began = time.process_time()
        published += learn_cells(learner, presence, mechanism.alphabet - 1, batch)
        seconds += time.process_time() - began
        progress(len(batch[1]))
    errors = truth.errors(learner.predict_many(users[tested], items[tested]), tested)
    ratings = truth.ratings
    baseline = item_means(items[learned], ratings[learned], items[tested]) - ratings[tested]
    return EvaluationResult(
        protocol="scope",
        model=learner.name,
        mechanism=mechanism.id,
        epsilon=None if mechanism.epsilon is None else float(mechanism.epsilon),
        events=len(tested),
        rmse=rms(errors),
        mae=float(np.abs(errors).mean()),
        rmse_baseline=rms(baseline),
        events_per_second=cells.levels.size / max(seconds, 1e-9),
        learned=published,
        scope=scope,
        cells=cells.levels.size,
    )


def learn_cells(learner: Learner, presence: PresenceRates, missing: int, batch: Batch) -> int:
    """Learn whole records, (counts, users, items, reports); return how many were published."""
    counts, users, items, reports = batch
    channels, published = np.zeros(len(users), np.uint16), reports != missing
    priors = presence.priors(counts, users, items, reports, channels)
    many = int(published.sum())
    before = np.concatenate(([0], np.cumsum(published)))  # published cells before each cell
    starts = [start._replace(cell=int(before[start.cell])) for start in presence.starts]
    columns = users[published], items[published], reports[published], channels[published]
    learn_from(learner, starts, (*columns, np.ones(many, np.bool_), priors[published]))
    return many

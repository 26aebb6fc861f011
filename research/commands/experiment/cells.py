"""One cell: a model, a mechanism, a test and a seed; what is measured, by `murmurec.evaluate` and
`murmurec.evaluate_ranking`.

Lists of learners and campaigns are those that devices make of what is liked next, after reports in
packed messages; where too few ratings leave no item side, those of the server.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any

import numpy as np

from murmurec.campaigns import campaign_lists
from murmurec.learner_evaluation import Evaluation, Options
from murmurec.ranking import RankingEvaluation, RankingOptions
from murmurec.ratings import item_keys
from producers.datasets.load import Dataset, is_timed
from research.commands.experiment.grid import (
    CAMPAIGN,
    ITEM_MEANS,
    NONE,
    OF_LISTS,
    SCOPE,
    SPLITS,
    Cell,
    Grid,
    person_epsilon,
    promised,
    test_of_ratings,
)
from stream_app.evaluation import running_item_means
from stream_app.evaluation.campaigns import LARGEST_SCOPE, ListOptions
from stream_app.evaluation.ranking import RankingRow, Way, baselines, lists_of, row_of, user_gains
from stream_app.evaluation.results import PARTS, ExperimentRow, rms, rms_of_parts

LENGTH = 10
_FORM = "packed"
Share = Callable[[int, int], object]  # done and total of the cell's own work
Found = dict[str, Any]


def refuse_scope(data: Dataset, grid: Grid, cells: Iterable[Cell]) -> None:
    """Raise ValueError for a scope of the grid that one of its cells cannot have."""
    if grid.scope is None:
        return
    timed, known = is_timed(data.timestamps), cache(partial(_known, data))
    for cell in cells:
        campaign = cell.model == CAMPAIGN
        if not campaign:
            scoped = cell.mechanism != NONE and test_of_ratings(cell.mechanism, data.scale.levels)
            if scoped != SCOPE:
                continue
        items = known(cell.split, grid.seed if timed else cell.seed)
        least, most = (LENGTH, min(items, LARGEST_SCOPE)) if campaign else (1, items)
        if not least <= grid.scope <= most:
            raise ValueError(
                f"scope {grid.scope}: give {least} to {most} for {cell.mechanism} ({cell.split})"
            )


def _known(data: Dataset, split: str, seed: int) -> int:
    """Return how many items a public scope may have: those that a split has learned, or all."""
    if split not in SPLITS:
        return len(np.unique(data.items))
    run = RankingEvaluation(
        data, None, k=LENGTH, split=split, model="sketch", seed=seed, options=RankingOptions(1)
    )
    return len(run.task.items)


def measured(
    data: Dataset,
    grid: Grid,
    cell: Cell,
    progress: Share,
    now: Callable[[], float] = time.monotonic,
) -> ExperimentRow:
    """Return the row of a cell; ValueError for ratings that are too few."""
    began = now()
    of_lists = cell.split in SPLITS
    if cell.model == CAMPAIGN:
        found = _campaign_lists(data, grid, cell, progress)
    elif cell.model == ITEM_MEANS:
        found = _item_means(data, cell)
    else:
        found = (_lists if of_lists else _stars)(data, grid, cell, progress)
    adjacency, epsilon = promised(cell.mechanism)
    return ExperimentRow(
        **cell._asdict(), adjacency=adjacency, epsilon=epsilon, **found, seconds=now() - began
    )


def _stars(data: Dataset, grid: Grid, cell: Cell, progress: Share) -> Found:
    run = Evaluation(
        data.in_time_order(cell.seed), cell.mechanism, model=cell.model, factors=grid.factors,
        protocol=None, seed=cell.seed, options=Options(scope=grid.scope),
    )  # fmt: skip
    result = run.measure(progress)
    if result.log_loss is not None:  # of likes: no stars are predicted
        return {"log_loss": result.log_loss, "baseline": result.log_loss_baseline}
    return {
        "rmse": result.rmse,
        "mae": result.mae,
        "baseline": result.rmse_baseline,
        "learned": result.learned,
        "rmse_parts": result.rmse_parts,
    }


def _item_means(data: Dataset, cell: Cell) -> Found:
    data, values = data.in_time_order(cell.seed), data.scale.values
    middle = float(values[0] + values[-1]) / 2
    errors = running_item_means(item_keys(data.items), data.ratings, middle) - data.ratings
    error, mae = rms(errors), float(np.abs(errors).mean())
    found = {"rmse": error, "mae": mae, "baseline": error, "learned": len(data)}
    return found | {"rmse_parts": rms_of_parts(errors, PARTS)}


def _campaign_lists(data: Dataset, grid: Grid, cell: Cell, progress: Share) -> Found:
    mode, epsilon = person_epsilon(cell.mechanism)
    options = ListOptions(LENGTH, cell.split, grid.scope)
    result = campaign_lists(data, mode, epsilon, options, seed=cell.seed, progress=progress)
    row = next(row for row in result.rows if row.history == "clean")
    return _of_lists(row, result.ndcg_popular)


def _lists(data: Dataset, grid: Grid, cell: Cell, progress: Share) -> Found:
    baseline = OF_LISTS.get(cell.model)
    run = RankingEvaluation(
        data, None if cell.mechanism == NONE else cell.mechanism, k=LENGTH, split=cell.split,
        model="hybrid" if baseline else cell.model, seed=cell.seed,
        options=RankingOptions(grid.factors, scope=grid.scope, messages=(_FORM,)),
    )  # fmt: skip
    task = run.task
    popular = user_gains(task, lists_of(task, baselines.popular(task), LENGTH))
    if baseline:
        way = Way(cell.model, "baseline", "true ratings", lists_of(task, baseline(task), LENGTH))
        return _of_lists(row_of(task, way), float(popular.mean()))
    for learned in run.learning(_FORM):
        progress(min(learned, len(task.rows)), len(task.rows))
    served = run.server.recommender.served is not None
    row = run.device_row() if served else run.server_row()
    return _of_lists(row, float(popular.mean())) | {"learned": run.server.learned}


def _of_lists(row: RankingRow, popular: float) -> Found:
    return {
        "ndcg": row.ndcg, "recall": row.recall, "coverage": row.coverage, "baseline": popular,
    }  # fmt: skip

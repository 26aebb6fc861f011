"""Co-ratings noised once, on MovieLens-1M: lists and predicted ratings, delta 1e-6, user level.

Lists: damped cosine over the 1,000 most rated items and the device's clean history, counts alone
released, for the splits `last` and `user-time` of the benchmark `ranking`, in any order and
weighted by recency; popular items beside.
Stars: Slope One damped towards the means over the 500 most rated items, a random fifth held out.
Mean of three draws of the noise.
"""

from __future__ import annotations

from fractions import Fraction
from math import nan

import numpy as np

from murmurec.ranking import least_like
from murmurec.ratings import columns_of, item_keys, user_keys
from producers.datasets.load import load
from research.noise_once import Rows, noise_once_lists, noise_once_stars
from stream_app.evaluation.ranking import ranking_task
from tests.benchmarks.figure import Figure
from tests.fixtures.rating_files import folder, rating_files

_SEEDS = (11, 12, 13)
_BUDGETS = (None, Fraction(8), Fraction(2), Fraction(1, 2))
_SCOPES = {"lists": 1_000, "stars": 500}


def measure(splits: int = len(_SEEDS)) -> list[Figure]:
    """Return nDCG@10 and RMSE for each budget, of the first draws for a shorter run."""
    files = rating_files()
    if "ml-1m" not in files:
        title = f"noise once on real ratings: skipped, none in {folder()} (set MURMUREC_DATA)"
        return [Figure(title, nan, "")]
    data = columns_of(load(files["ml-1m"]), None)
    users, items = user_keys(data.users), item_keys(data.items)
    stars, least = data.ratings, least_like(None, data)
    figures = []
    for split in ("last", "user-time"):
        task = ranking_task(users, items, stars, stars >= least, split)
        for epsilon in _BUDGETS:
            runs = _SEEDS[: 1 if epsilon is None else splits]
            found = [
                noise_once_lists(task, epsilon, scope=_SCOPES["lists"], seed=seed) for seed in runs
            ]
            popular = found[0].popular.ndcg
            target = f">= {popular:.4f}" if epsilon is not None and epsilon >= 2 else ""
            value = float(np.mean([each.similar.ndcg for each in found]))
            figures.append(Figure(f"{_name(epsilon)}, {split}: nDCG@10", value, "", target))
            recent = float(np.mean([each.by_recency.ndcg for each in found]))
            figures.append(Figure(f"the same, by recency, {split}: nDCG@10", recent, ""))
        figures.append(Figure(f"popular, {split}: nDCG@10", popular, ""))
    rows = Rows(*(np.unique(column, return_inverse=True)[1] for column in (users, items)), stars)
    for epsilon in _BUDGETS:
        runs = _SEEDS[: 1 if epsilon is None else splits]
        errors = [noise_once_stars(rows, epsilon, scope=_SCOPES["stars"], seed=s) for s in runs]
        value = float(np.mean([each.slope_one for each in errors]))
        figures.append(Figure(f"{_name(epsilon)}: RMSE of Slope One", value, "stars"))
    figures.append(Figure("true item means: RMSE", errors[0].item_means, "stars"))
    return figures


def _name(epsilon: Fraction | None) -> str:
    return "noise once, none" if epsilon is None else f"noise once, epsilon {epsilon}"

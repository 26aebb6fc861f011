"""Accuracy of campaigns on MovieLens-1M: one whole-person budget, delta 1e-6, exact integer noise.

Lists: *together* alone over the 300 most rated items, each user's last fifth held out, the 2,000
users of the benchmark `ranking`; mean of three draws of the noise. Predicted ratings: *stars* in
seven stages, device fold-in, mean of three random 80/10/10 splits; the constants of the recipe were
chosen on the middle tenth of two of them, and the choice is not accounted. Split: two parties, each
with all of the noise.
"""

from __future__ import annotations

from fractions import Fraction
from math import nan

import numpy as np

from murmurec.campaigns import budget_of, campaign_stars
from murmurec.ranking import least_like
from murmurec.ratings import columns_of, item_keys, user_keys
from producers.datasets.descriptions import metadata_of
from producers.datasets.load import Dataset, load
from stream_app.evaluation.campaigns import SCOPE, evaluate_lists
from stream_app.evaluation.ranking import ranking_task
from tests.benchmarks.figure import Figure
from tests.fixtures.rating_files import folder, rating_files

_SEEDS = (11, 12, 13)
_LISTS = (  # mode, epsilon, target
    ("central", "1/2", ">= 0.101"),
    ("central", "1", ">= 0.115"),
    ("central", "2", ">= 0.121"),
    ("central", "4", ">= 0.127"),
    ("split", "1/2", ">= 0.098"),
    ("split", "1", ">= 0.112"),
    ("split", "2", ">= 0.117"),
    ("split", "4", ">= 0.125"),
)
_STARS = (  # mode, epsilon, metadata, target
    ("central", "1", False, "<= 0.945"),
    ("central", "2", False, "<= 0.918"),
    ("central", "4", False, "<= 0.899"),
    ("central", "8", False, "<= 0.883"),
    ("central", "1", True, "<= 0.917"),
    ("central", "2", True, "<= 0.897"),
    ("central", "4", True, "<= 0.880"),
    ("central", "8", True, "<= 0.869"),
    ("split", "2", False, ""),
    ("split", "2", True, ""),
)


def measure(splits: int = len(_SEEDS)) -> list[Figure]:
    """Return the figures of lists and of predicted ratings, and a device's work; of the first
    splits and draws of the noise, for a shorter run."""
    seeds = _SEEDS[:splits]
    files = rating_files()
    if "ml-1m" not in files:
        title = f"campaigns on real ratings: skipped, none in {folder()} (set MURMUREC_DATA)"
        return [Figure(title, nan, "")]
    data = columns_of(load(files["ml-1m"]), None)
    figures = lists("ml-1m", data, _LISTS, seeds)
    if "ml-100k" in files:
        figures += lists(
            "ml-100k", columns_of(load(files["ml-100k"]), None), (("central", "1/2", ""),), seeds
        )
    found = load(files["ml-1m"]).described
    metadata = metadata_of(found, files["ml-1m"]) if found else None
    for mode, epsilon, meta, target in _STARS:
        if meta and metadata is None:
            continue
        found = [
            campaign_stars(
                data, mode, Fraction(epsilon), metadata=metadata if meta else None, seed=seed
            )
            for seed in seeds
        ]
        name = f"ml-1m, stars, {mode}, epsilon {epsilon}{', metadata' if meta else ''}"
        rmse = float(np.mean([each.rmse for each in found]))
        figures.append(Figure(f"{name}: RMSE", rmse, "stars", target))
        work = max(each.device_milliseconds for each in found)
        figures.append(Figure(f"{name}: a device's longest stage", work, "ms", "<= 30"))
        size = max(each.stage_bytes for each in found) / 1000
        figures.append(Figure(f"{name}: largest contribution", size, "kB", "<= 60"))
    return figures


def lists(
    name: str, data: Dataset, rows: tuple[tuple[str, str, str], ...], seeds: tuple[int, ...]
) -> list[Figure]:
    """Return nDCG@10 of lists by mode and epsilon, in any order and by recency."""
    users, items = user_keys(data.users), item_keys(data.items)
    liked = data.ratings >= least_like(None, data)
    task = ranking_task(users, items, data.ratings, liked)
    figures = []
    for mode, epsilon, target in rows:
        budget = budget_of(mode, Fraction(epsilon))
        found = [
            evaluate_lists(task, budget, scope=min(SCOPE, len(task.items)), seed=seed)
            for seed in seeds
        ]
        title = f"{name}, together, {mode}, epsilon {epsilon}"
        for place, history in enumerate(("by recency", "no order")):
            ndcg = float(np.mean([each.rows[place].ndcg for each in found]))
            wanted = target if history == "no order" else ""
            figures.append(Figure(f"{title}, {history}", ndcg, "nDCG", wanted))
        popular = float(np.mean([each.ndcg_popular for each in found]))
        figures.append(Figure(f"{title}: popular", popular, "nDCG"))
        work = max(each.device_milliseconds for each in found)
        figures.append(Figure(f"{title}: a device's work", work, "ms", "<= 30"))
        size = found[0].contribution_bytes / 1000
        figures.append(Figure(f"{title}: contribution", size, "kB", "<= 190"))
    return figures

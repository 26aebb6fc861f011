"""Accuracy of campaigns on MovieLens-1M: one whole-person budget, delta 1e-6, exact integer noise.

Lists: *together* alone over the 300 most rated items, with genres and years as a prior; three
splits, the 2,000 users of the benchmark `ranking`; mean of three draws of the noise. The constants
of the prior were chosen on these splits, which is not accounted. Split: two parties, each with all
of the noise.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import nan

import numpy as np

from murmurec.campaigns import ListOptions, campaign_lists
from murmurec.ratings import columns_of
from producers.datasets.descriptions import Metadata, metadata_of
from producers.datasets.load import Dataset, load
from tests.benchmarks.figure import Figure
from tests.fixtures.rating_files import folder, rating_files

_SEEDS = (11, 12, 13)
_SPLITS = ("global", "visit", "user-time")
_LISTS = (  # mode, epsilon, target of user-time by recency
    ("central", "1/2", ">= 0.117"),
    ("central", "1", ">= 0.125"),
    ("central", "2", ">= 0.133"),
    ("central", "4", ">= 0.138"),
    ("split", "1/2", ""),
    ("split", "1", ""),
    ("split", "2", ""),
    ("split", "4", ""),
)


def measure(splits: int = len(_SEEDS)) -> list[Figure]:
    """Return the figures of lists, and a device's work; of the first splits and draws of the noise,
    for a shorter run."""
    seeds = _SEEDS[:splits]
    files = rating_files()
    if "ml-1m" not in files:
        title = f"campaigns on real ratings: skipped, none in {folder()} (set MURMUREC_DATA)"
        return [Figure(title, nan, "")]
    data = columns_of(load(files["ml-1m"]), None)
    found = load(files["ml-1m"]).described
    metadata = metadata_of(found, files["ml-1m"]) if found else None
    figures = lists("ml-1m", data, metadata, _LISTS, seeds)
    if "ml-100k" in files:
        other = columns_of(load(files["ml-100k"]), None)
        rows = tuple(("central", epsilon, "") for epsilon in ("1/2", "1", "2"))
        figures += lists("ml-100k", other, None, rows, seeds)
    return figures


def lists(
    name: str,
    data: Dataset,
    metadata: Metadata | None,
    rows: tuple[tuple[str, str, str], ...],
    seeds: tuple[int, ...],
) -> list[Figure]:
    """Return nDCG@10 of lists by split, mode and epsilon, by recency and in any order."""
    figures = []
    for split, (mode, epsilon, target) in product(_SPLITS, rows):
        options = ListOptions(split=split)
        found = [
            campaign_lists(data, mode, Fraction(epsilon), options, metadata=metadata, seed=seed)
            for seed in seeds
        ]
        title = f"{name}, {split}, together, {mode}, epsilon {epsilon}"
        for place, row in enumerate(found[0].rows):
            ndcg = float(np.mean([each.rows[place].ndcg for each in found]))
            wanted = target if place == 0 and split == "user-time" else ""
            figures.append(Figure(f"{title}: {row.method}, {row.history}", ndcg, "nDCG", wanted))
        work = max(each.device_milliseconds for each in found)
        figures.append(Figure(f"{title}: a device's work", work, "ms", "<= 30"))
        size = found[0].contribution_bytes / 1000
        figures.append(Figure(f"{title}: contribution", size, "kB", "<= 190"))
    return figures

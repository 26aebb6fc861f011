"""Campaigns over time on MovieLens-1M in time order, a whole-person epsilon of 2 for all rounds.

Each rating is predicted before it is learned, from the public side of that moment and the clean
ratings that its device has by then; the side is refreshed after each of T equal parts of the
ratings. Again: whole campaigns of everybody so far, each with 1 / T of mu^2. Running: everybody
contributes once, in the round of joining, to running sums with correlated noise. Central, one draw
of the noise; beside them the running true means of items.
"""

from __future__ import annotations

from fractions import Fraction
from math import nan

from producers.datasets.descriptions import metadata_of
from producers.datasets.load import load
from research.continual import CampaignsOverTime
from research.continual.people import campaigns_over_time
from tests.benchmarks.figure import Figure
from tests.fixtures.rating_files import folder, rating_files

_EPSILON = Fraction(2)
_ROWS = ((4, False, "<= 0.955"), (4, True, "<= 0.93"), (8, False, ""), (8, True, ""))


def measure() -> list[Figure]:
    """Return RMSE of the last fifth and of every tenth, by form, rounds and metadata."""
    files = rating_files()
    if "ml-1m" not in files:
        title = f"campaigns over time: skipped, no ml-1m in {folder()} (set MURMUREC_DATA)"
        return [Figure(title, nan, "")]
    data = load(files["ml-1m"])  # `campaigns_over_time` puts it in time order
    metadata = metadata_of(data.described, files["ml-1m"]) if data.described else None
    figures = []
    for rounds, meta, target in _ROWS:
        if meta and metadata is None:
            continue
        known = metadata if meta else None
        found = campaigns_over_time(data, "central", _EPSILON, rounds, metadata=known)
        name = f"ml-1m, {rounds} rounds, epsilon 2{', metadata' if meta else ''}"
        figures += _figures(name, found, target)
    return figures


def _figures(name: str, found: CampaignsOverTime, target: str) -> list[Figure]:
    figures = [Figure(f"{name}: noise of a running sum at the end", found.growth, "of one release")]
    for form in found.forms:
        wanted = target if form.name == "running" else ""
        title = f"{name}, {form.name}, RMSE"
        figures.append(Figure(f"{title} of the last fifth", form.last_fifth, "stars", wanted))
        for part, rmse in enumerate(form.rmse, 1):
            figures.append(Figure(f"{title} of tenth {part}", rmse, "stars"))
    return figures

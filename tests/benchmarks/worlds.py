"""The generated world of `murmurec demo` beside MovieLens-1M: shape of the ratings, worth of lists.

    generated    2,000 users, 2,000 items, 300,000 ratings
    ml-1m        the mean of three disjoint parts of 2,000 users, drawn by a seed, with all items

Worth is nDCG@10. A departure is |a / b - 1| of two ratios, a of the generated world and b of
MovieLens-1M. Liked genres: the share of a list in the genres that its user leans to, which only the
generated world knows.
"""

from __future__ import annotations

from math import nan
from statistics import mean

import numpy as np

from producers.datasets.load import Dataset, load
from tests.benchmarks.figure import Figure
from tests.fixtures.rating_files import folder, rating_files
from tests.fixtures.worlds import Lists, demo_world, shape

SPLITS = ("global", "visit", "user-time")
USERS, PARTS = 2_000, 3
_TARGET = {"global": "<= 0.15", "visit": "<= 0.15"}


def measure() -> list[Figure]:
    """Return the figures of the generated world, beside those of MovieLens-1M if it is found."""
    world = demo_world()
    lists = {split: Lists.of(world.dataset, split) for split in SPLITS}
    ours = shape(world.dataset) | _worth(lists)
    if (path := rating_files().get("ml-1m")) is None:
        skipped = f"ml-1m beside the generated world: skipped, not in {folder()}"
        figures = [Figure(f"generated, {name}", value, "") for name, value in ours.items()]
        figures.append(Figure(f"{skipped} (set MURMUREC_DATA)", nan, ""))
    else:
        real = _means([_figures(part) for part in parts(load(path).in_time_order())])
        figures = [
            Figure(f"{source}, {name}", found[name], "")
            for name in ours
            for source, found in (("generated", ours), ("ml-1m", real))
        ]
        figures += _departures(ours, real)
    for split, each in lists.items():
        shares = each.liked_genres(world)
        figures += [
            Figure(
                f"generated, {split}: {name}, liked genres of popular",
                shares[name] / shares["popular"],
                "x",
                ">= 2",
            )
            for name in ("EASE", "device")
        ]
    return figures


def parts(data: Dataset) -> list[Dataset]:
    """Return disjoint parts of `USERS` users each."""
    users = np.random.default_rng(0).permutation(np.unique(data.users))
    return [data.at(np.isin(data.users, users[USERS * n : USERS * (n + 1)])) for n in range(PARTS)]


def _figures(data: Dataset) -> dict[str, float]:
    return shape(data) | _worth({split: Lists.of(data, split) for split in SPLITS})


def _worth(lists: dict[str, Lists]) -> dict[str, float]:
    """Return nDCG@10 by split and method, and the ratio to popular items."""
    found: dict[str, float] = {}
    for split, each in lists.items():
        worth = each.worth()
        found |= {f"{split}: {name}, nDCG": value for name, value in worth.items()}
        found |= {
            f"{split}: {n} / popular": worth[n] / worth["popular"] for n in ("EASE", "device")
        }
    return found


def _means(found: list[dict[str, float]]) -> dict[str, float]:
    return {name: mean(each[name] for each in found) for name in found[0]}


def _departures(ours: dict[str, float], real: dict[str, float]) -> list[Figure]:
    return [
        Figure(
            f"departure from ml-1m, {name}",
            abs(ours[name] / real[name] - 1),
            "",
            _TARGET.get(name.split(":")[0], ""),
        )
        for name in ours
        if name.endswith("/ popular")
    ]

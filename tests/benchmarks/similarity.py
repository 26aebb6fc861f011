"""Items that go together: RMSE of Slope One and cosine.

RMSE: ML-1M, a random 80/20 split, predictions clamped to 1 .. 5, ratings of items without any
learned rating left out. The peer is SlopeOne of scikit-surprise where that is installed (`pip
install scikit-surprise`), otherwise its formula: the user's mean and the mean deviation from those
of the user's items that have a co-rater. From reports: the table of their debiased values, on the
same split.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from math import nan

import numpy as np

from producers.datasets.load import Dataset, load
from research.similarity import cosine, slope_one, table
from research.similarity.table import CoRatingTable, slots_of
from stream_app.models.factorization.channels import Channels
from stream_app.privacy import registry
from stream_app.privacy.randomness import SeededSource
from tests.benchmarks.figure import Figure
from tests.fixtures import cosine_stars
from tests.fixtures.rating_files import folder, rating_files

LEAST_PROFILE = 20
Predict = Callable[[np.ndarray, np.ndarray], np.ndarray]


def measure() -> list[Figure]:
    """Return errors."""
    files = rating_files()
    if "ml-1m" not in files:
        title = f"similarity on ML-1M: skipped, not in {folder()} (set MURMUREC_DATA)"
        return [Figure(title, nan, "")]
    data = load(files["ml-1m"])
    split = Split.drawn(data.users, data.items, data.ratings)
    return [*errors(split), *noised_errors(data, split)]


@dataclass(frozen=True, eq=False)
class Split:
    """Slots and ratings by user, learned and tested, and the table of what is learned."""

    learned: list[tuple[np.ndarray, np.ndarray]]
    tested: list[tuple[np.ndarray, np.ndarray]]
    table: CoRatingTable

    @classmethod
    def drawn(cls, users: np.ndarray, items: np.ndarray, ratings: np.ndarray) -> Split:
        held = np.random.default_rng(0).random(len(users)) < 0.2
        people, by_user = np.unique(users, return_inverse=True)
        keys = np.unique(items[~held])
        found = table.from_ratings(by_user[~held], items[~held], ratings[~held], keys)
        slots = slots_of(found.keys, items)

        def by_people(rows: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
            rows = rows[np.argsort(by_user[rows], kind="stable")]
            starts = np.searchsorted(by_user[rows], np.arange(len(people) + 1))
            spans = [rows[first:last] for first, last in pairwise(starts)]
            return [(slots[span], ratings[span]) for span in spans]

        return cls(
            by_people(np.flatnonzero(~held)), by_people(np.flatnonzero(held & (slots >= 0))), found
        )

    def rmse(self, predict: Predict) -> float:
        """Return the error of a function from slots and ratings to the stars of all items."""
        total, count = 0.0, 0
        for own, (slots, ratings) in zip(self.learned, self.tested, strict=True):
            if len(slots):
                found = np.clip(predict(*own)[slots], 1, 5) - ratings
                total, count = total + float(found @ found), count + len(found)
        return (total / count) ** 0.5


def errors(split: Split) -> list[Figure]:
    """Return the RMSE of every form, beside that of the peer."""
    found, means = split.table, cosine_stars.item_means(split.table)

    def by_deviations(deviations: np.ndarray, least_profile: int | None = None) -> float:
        return split.rmse(lambda s, r: slope_one.predict(deviations, s, r, least_profile))

    def by_cosine(damping: float | None) -> float:
        similar = cosine.similarities(found, damping)
        return split.rmse(lambda s, r: cosine_stars.predict(similar, means, s, r))

    name, peer = peer_rmse(split)
    plain = by_deviations(slope_one.deviations(found))
    figures = [
        Figure("Slope One, ML-1M, RMSE", plain, "stars"),
        Figure(f"the same of {name}", peer, "stars"),
        Figure("distance of the two", abs(plain - peer), "stars", "<= 0.005"),
    ]
    for damping in (5.0, 10.0, 20.0, 50.0):
        for towards in (False, True):
            deviations = slope_one.deviations(found, damping, towards_means=towards)
            error = by_deviations(deviations, LEAST_PROFILE)
            bound = slope_one.other_profile_bound(damping, towards_means=towards)
            centre = "the means" if towards else "0"
            label = f"damped {damping:g} towards {centre}, another user moves it by {bound:.2f}"
            figures.append(Figure(f"Slope One {label}, RMSE", error, "stars"))
            if towards and damping == 10:
                gain = "damped 10 towards the means, RMSE above plain"
                figures.append(Figure(f"Slope One {gain}", error - plain, "stars", "<= 0"))
    figures += [
        Figure("cosine, ML-1M, RMSE", by_cosine(None), "stars"),
        Figure("cosine damped 20, RMSE", by_cosine(20.0), "stars"),
    ]
    return figures


def noised_errors(data: Dataset, split: Split) -> list[Figure]:
    """Return the RMSE from a table of noised ratings, as a server has it: for its history of
    reports, and for the clean history of a device."""
    figures = []
    for name, damping in (("rr:5:4", 10.0), ("rr:5:2", 20.0), ("rr:5:1", 100.0)):
        mechanism = registry.parse(name)
        values = Channels.from_mechanisms([mechanism]).value
        noised = values[mechanism.release(data.levels, SeededSource(1))]
        server = Split.drawn(data.users, data.items, noised)
        deviations = slope_one.deviations(server.table, damping, towards_means=True)
        for whose, learned, least in (
            ("reports", server.learned, None),
            ("clean", split.learned, LEAST_PROFILE),
        ):
            found = replace(split, learned=learned)
            error = found.rmse(partial(_predicted, deviations, least))
            title = f"Slope One from {name}, damped {damping:g} towards the means, history {whose}"
            figures.append(Figure(f"{title}, RMSE", error, "stars"))
    return figures


def _predicted(
    deviations: np.ndarray, least_profile: int | None, slots: np.ndarray, ratings: np.ndarray
) -> np.ndarray:
    return slope_one.predict(deviations, slots, ratings, least_profile)


def peer_rmse(split: Split) -> tuple[str, float]:
    """Return the name and the error of the peer."""
    try:
        surprise = importlib.import_module("surprise")
    except ImportError:
        deviations = slope_one.deviations(split.table)
        known = split.table.counts > 0

        def written_out(slots: np.ndarray, ratings: np.ndarray) -> np.ndarray:
            shared = known[slots]
            moved = np.where(shared, deviations[:, slots].T, 0).sum(axis=0, dtype=np.float64)
            return ratings.mean() + moved / np.maximum(shared.sum(axis=0), 1)

        return "surprise's formula, written out", split.rmse(written_out)
    by_user = {
        user: list(zip(slots.tolist(), ratings.tolist(), strict=True))
        for user, (slots, ratings) in enumerate(split.learned)
    }
    by_item: dict[int, list[tuple[int, float]]] = {}
    for user, cells in by_user.items():
        for slot, rating in cells:
            by_item.setdefault(slot, []).append((user, rating))
    count, items = sum(map(len, by_user.values())), len(split.table)
    names = {user: user for user in by_user}, {slot: slot for slot in range(items)}
    learned = surprise.Trainset(by_user, by_item, len(by_user), items, count, (1, 5), *names)
    model = surprise.SlopeOne().fit(learned)
    total, tested = 0.0, 0
    for user, (slots, ratings) in enumerate(split.tested):
        for slot, rating in zip(slots.tolist(), ratings.tolist(), strict=True):
            total += (min(max(model.estimate(user, slot), 1), 5) - rating) ** 2
            tested += 1
    return f"scikit-surprise {surprise.__version__}", (total / tested) ** 0.5

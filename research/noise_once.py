"""Lists and predicted ratings from co-ratings that were noised once, for a whole population.

Every device adds the newest ratings of its learned part among the most rated items, as it would
live; a device ranks and predicts with the released table and its own clean history.

    lists   damped cosine to the history; popular: by true counts, of all items
    stars   Slope One, damped towards the means of the items, and clamped

Stars are the true ones; live they are debiased reports, which costs Slope One more. The scope
stands for a public list of popular items. With epsilon None the same sums have no noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from research.similarity import cosine, slope_one
from research.similarity.noised_sums import (
    Listed,
    NoisedTable,
    NoisePlan,
    exact_sums,
    plan_for,
    release,
    table_of,
)
from stream_app.campaigns.together import recency_weights
from stream_app.evaluation.campaigns.campaign_lists import DELTA
from stream_app.evaluation.ranking import RankingRow, RankingTask, Way, baselines, lists_of, row_of
from stream_app.privacy.randomness import SeededSource

SCOPE = 1_000
RECENT = 128  # newest ratings of a device: what a worker keeps of it
_CLEAN_DAMPING = 1.0  # weighted co-raters, where no noise asks for more

Progress = Callable[[int], None]


class Rows(NamedTuple):
    """Ratings (n,) in time order: users and items from 0, stars."""

    users: NDArray[np.intp]
    items: NDArray[np.intp]
    stars: NDArray[np.float64]

    def part(self, kept: NDArray[np.bool_]) -> Rows:
        """Return the rows (n,) that are kept."""
        return Rows(self.users[kept], self.items[kept], self.stars[kept])


@dataclass(frozen=True)
class NoiseOnceLists:
    """nDCG and the other figures by damped cosine, with the history weighted by recency as in
    `campaigns/together.py`, and those of popular items beside."""

    epsilon: float | None
    delta: float
    scope: int
    deviation: float
    similar: RankingRow
    by_recency: RankingRow
    popular: RankingRow


@dataclass(frozen=True)
class NoiseOnceStars:
    """RMSE in stars on the held-out fifth: Slope One of the table, the means of the same table with
    the user's mean difference to them, and the true means of the items."""

    epsilon: float | None
    scope: int
    tested: int
    slope_one: float
    offsets: float
    item_means: float


def noise_once_lists(
    task: RankingTask,
    epsilon: Fraction | None,
    *,
    scope: int = SCOPE,
    k: int = 10,
    seed: int = 0,
    progress: Progress = lambda devices: None,  # noqa: ARG005 (a silent default)
) -> NoiseOnceLists:
    """Return the figures of the tested users' lists after one release of counts alone."""
    learned = task.learned
    rows = Rows(learned.users, learned.items, np.zeros(len(learned.users)))
    public, lists = recent_lists(rows, len(task.users), scope)
    noised = _noised(epsilon, len(public), lists, seed, differences=False, progress=progress)
    similar = cosine.similarities(noised.table, _damping(noised, epsilon))

    place = np.full(len(task.items), -1, np.intp)
    place[public] = np.arange(len(public))

    def lists_by(*, by_recency: bool) -> NDArray[np.intp]:
        def scores(first: int, last: int) -> NDArray[np.floating]:
            found = np.full((last - first, len(task.items)), -np.inf, np.float32)
            for row in range(first, last):
                slots = place[task.history.of_user(row)[0]]
                slots = slots[slots >= 0]
                weights = recency_weights(len(slots)) if by_recency else np.ones(len(slots))
                found[row - first, public] = weights.astype(np.float32) @ similar[slots]
            return found

        return lists_of(task, scores, k)

    ways = (
        Way("similar", "device", "clean", lists_by(by_recency=False)),
        Way("similar", "device", "clean, by recency", lists_by(by_recency=True)),
        Way("popular", "baseline", "none", lists_of(task, baselines.popular(task), k)),
    )
    return NoiseOnceLists(
        epsilon=None if epsilon is None else float(epsilon),
        delta=float(DELTA),
        scope=len(public),
        deviation=noised.deviation,
        similar=row_of(task, ways[0]),
        by_recency=row_of(task, ways[1]),
        popular=row_of(task, ways[2]),
    )


def noise_once_stars(
    rows: Rows, epsilon: Fraction | None, *, scope: int = SCOPE, seed: int = 0
) -> NoiseOnceStars:
    """Return errors on a random fifth of the ratings, of users and items with learned ratings.

    Ratings of items outside the scope are left out of all figures.
    """
    held = np.random.default_rng(seed).random(len(rows.users)) < 1 / 5
    learned, tested = rows.part(~held), rows.part(held)
    people = int(rows.users.max()) + 1
    public, lists = recent_lists(learned, people, scope)
    place = np.full(int(rows.items.max()) + 1, -1, np.intp)
    place[public] = np.arange(len(public))
    # Only items of the scope from here on, under their slots.
    inside = [place[each.items] >= 0 for each in (learned, tested)]
    learned, tested = learned.part(inside[0]), tested.part(inside[1])
    learned, tested = (each._replace(items=place[each.items]) for each in (learned, tested))
    noised = _noised(epsilon, len(public), lists, seed, differences=True)
    every = _errors(noised, _damping(noised, epsilon), learned, tested, people)
    return NoiseOnceStars(
        None if epsilon is None else float(epsilon),
        len(public),
        every.shape[1],
        *(float(value) for value in np.sqrt(np.square(every).mean(axis=1))),
    )


def _errors(
    noised: NoisedTable, damping: float, learned: Rows, tested: Rows, people: int
) -> NDArray[np.float64]:
    """Return the errors (3, e) of the three predictions of `NoiseOnceStars`."""
    moved = slope_one.deviations(noised.table, damping, towards_means=True)
    means = slope_one.damped_means(noised.table, damping)
    sums, counts = (
        np.bincount(learned.items, weights, len(means)) for weights in (learned.stars, None)
    )
    item_means = (sums + learned.stars.mean()) / (counts + 1)
    errors = [np.zeros((3, 0))]
    for known, wanted in zip(_by_user(learned, people), _by_user(tested, people), strict=True):
        if not len(known) or not len(wanted):
            continue
        slots, stars, targets = learned.items[known], learned.stars[known], tested.items[wanted]
        found = slope_one.predict(moved, slots, stars, 1)[targets]
        by_means = np.clip(means[targets] + (stars - means[slots]).mean(), 1, 5)
        errors.append(np.stack([found, by_means, item_means[targets]]) - tested.stars[wanted])
    return np.concatenate(errors, axis=1)


def recent_lists(
    rows: Rows, people: int, scope: int, recent: int = RECENT
) -> tuple[NDArray[np.intp], list[Listed]]:
    """Return the most rated items (s,), and each user's newest `recent` ratings of them by slot."""
    counts = np.bincount(rows.items)
    public = np.argsort(-counts, kind="stable")[: min(scope, int((counts > 0).sum()))]
    place = np.full(len(counts), -1, np.intp)
    place[public] = np.arange(len(public))
    lists: list[Listed] = []
    for part in _by_user(rows, people):
        known = part[place[rows.items[part]] >= 0][-recent:]
        lists.append((place[rows.items[known]], rows.stars[known]))
    return public, lists


def _by_user(rows: Rows, people: int) -> list[NDArray[np.intp]]:
    """Return the rows of each user, in time order."""
    order = np.argsort(rows.users, kind="stable")
    bounds = np.searchsorted(rows.users[order], np.arange(1, people))
    return np.split(order, bounds)


def _noised(
    epsilon: Fraction | None,
    items: int,
    lists: list[Listed],
    seed: int,
    *,
    differences: bool,
    progress: Progress = lambda devices: None,  # noqa: ARG005 (a silent default)
) -> NoisedTable:
    """Return the table of one release, or that of the same sums without noise."""
    keys = np.arange(items, dtype=np.uint64)
    if epsilon is not None:
        plan = plan_for(epsilon, DELTA, items, differences=differences)
        return release(plan, lists, keys, SeededSource(seed), progress=progress)
    plan = NoisePlan(items, 2**15, Fraction(4), differences)
    return NoisedTable(plan, table_of(plan, exact_sums(plan, lists, progress), keys))


def _damping(noised: NoisedTable, epsilon: Fraction | None) -> float:
    return _CLEAN_DAMPING if epsilon is None else noised.damping

"""X-Map for cold users: an AlterEgo, and predictions from neighbours of its items.

    clean       replacement: the largest X-SIM;  neighbours: by agreement F, the largest ones
    agreement   replacements: the five items with the largest F;  neighbours: the same
    corrected   damped similarities, of which one person moves each by at most Delta; replacements
                drawn from the whole target catalogue (PRS), neighbours chosen (PNSA) and their
                similarities noised (PNCF, Gaussian)

epsilon is of ONE replaced item, epsilon' of ONE neighbourhood, as in the paper. A reply to a user
with h rated items (at most `most`, drawn at random) costs another person

    h epsilon + h epsilon'        and delta = h 1e-6

`whole` splits an epsilon for the reply evenly over these. That covers what similarities say of a
person; the mean ratings of items count as public here. Item means are of many people, and a
deployment would release them once, with noise.

The noise of a similarity has a public variance v: a similarity counts v0 / (v0 + v) of its value,
v0 the square of a typical one. At epsilon' = 0 none is released.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from research.xmap.adjusted_cosine import damped_cosine, sensitivity, significance
from research.xmap.alter_ego import (
    AlterEgo,
    Middles,
    alter_ego,
    carried,
    predicted,
    strongest,
)
from research.xmap.methods import Prediction, user_offset
from research.xmap.neighbour_noise import GaussianSimilarities
from research.xmap.neighbours import PrivateNeighbours
from research.xmap.paths import SENSITIVITY, Damping, x_sim
from research.xmap.replacement import PrivateReplacement
from research.xmap.task import Cold, ColdTask
from stream_app.privacy.randomness import RandomSource, SeededSource

DELTA = 1e-6  # of one neighbourhood
SPREAD = 5  # 1 instead: MAE .7314 instead of .7266, books to movies of the Amazon subset
NEIGHBOURS = 200  # 50 instead: .7298

_LINKED = 1.0  # of the sum of similarities, beside popularity; 10 costs up to .03 of nDCG@10
_TYPICAL = 0.1  # of a damped similarity
Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class XMapOptions:
    """epsilon: of a replaced item; epsilon_neighbours: epsilon', of a neighbourhood; 0 to inf.

    neighbours: k. most: rated items that are replaced. links: that X-SIM keeps of an item. damping:
    of the corrected similarities. as_printed: ratings are carried as they are, and predictions know
    no offset but that of the AlterEgo, as in the paper.
    """

    epsilon: float = math.inf
    epsilon_neighbours: float = math.inf
    neighbours: int = 10
    most: int = 20
    links: int = 10
    damping: Damping = Damping(100.0, 2.0)  # noqa: RUF009 (a frozen value)
    as_printed: bool = False
    seed: int = 0

    def whole(self, epsilon: float, replaced: int) -> XMapOptions:
        """Return the options in which a reply of so many replaced items costs `epsilon`."""
        each = epsilon / (2 * max(replaced, 1))
        return replace(self, epsilon=each, epsilon_neighbours=each)


def clean(task: ColdTask, options: XMapOptions | None = None) -> list[Prediction]:
    """Return what X-Map without noise predicts for each cold user."""
    options = options or XMapOptions()
    return _by_links(task, x_sim(task.source, task.target, options.links), 1)


def by_agreement(task: ColdTask) -> list[Prediction]:
    """Return what is predicted where replacements go by F alone, without noise."""
    return _by_links(task, significance(task.source, task.target)[1], SPREAD)


def _by_links(task: ColdTask, across: Matrix, spread: int) -> list[Prediction]:
    first = task.data.sources
    links = strongest(across, spread, first)
    alike = significance(task.target, task.target)[1]
    near = strongest(alike, NEIGHBOURS, first, within=True)
    found = []
    for each in task.cold:
        ego = alter_ego(each.items, each.stars, links, _middles(task), spread)
        found.append(_predict(task, each, ego, near.dense(ego.places)))
    return found


class Corrected:
    """The similarities of a task, computed once, and draws from them.

    by_paths: replacements go by X-SIM, of which one person moves each by up to 2.
    """

    def __init__(self, task: ColdTask, damping: Damping, *, by_paths: bool = False) -> None:
        self._task = task
        self.within = damped_cosine(task.target, task.target, *damping)
        self.sensitivity = self.sensitivity_across = sensitivity(*damping)
        if by_paths:
            self.across, self.sensitivity_across = x_sim(task.source, task.target), SENSITIVITY
        else:
            self.across = damped_cosine(task.source, task.target, *damping)

    def predict(self, options: XMapOptions, epsilon: float | None = None) -> list[Prediction]:
        """Return the predictions for each cold user; `epsilon`: of a whole reply, instead of those
        of the options."""
        source = SeededSource(options.seed)
        random = np.random.default_rng((options.seed, 2))
        found = []
        for each in self._task.cold:
            kept = np.sort(random.permutation(len(each.items))[: options.most])
            some = each._replace(items=each.items[kept], stars=each.stars[kept])
            own = options if epsilon is None else options.whole(epsilon, len(kept))
            near = self._near(some, own, source)
            found.append(_predict(self._task, each, *near, as_printed=options.as_printed))
        return found

    def _near(
        self, cold: Cold, options: XMapOptions, source: RandomSource
    ) -> tuple[AlterEgo, Matrix]:
        """Return the profile and the released neighbourhoods of its items (c, m)."""
        places = _replacement(options.epsilon, self.sensitivity_across).release(
            self.across[cold.items], source
        )
        middles = None if options.as_printed else _middles(self._task)
        ego = carried(cold.items, cold.stars, places, np.ones(len(places)), middles)
        near = np.zeros((len(ego.places), self._task.data.targets))
        if options.epsilon_neighbours:
            settings = options.neighbours, options.epsilon_neighbours, self.sensitivity
            for row, place in enumerate(ego.places.tolist()):
                chosen, released = _neighbourhood(self.within[place], place, settings, source)
                near[row, chosen] = released
        return ego, near


def _predict(
    task: ColdTask, cold: Cold, ego: AlterEgo, near: Matrix, *, as_printed: bool = False
) -> Prediction:
    own = None if as_printed else user_offset(task, cold)
    ratings = predicted(ego, near, task.target_means, offset=own)
    weights = ego.weights / max(float(ego.weights.mean()), 1e-9) if len(ego.places) else ego.weights
    popular = np.log1p(task.target.present.sum(axis=0))
    return Prediction(ratings, popular * (1 + _LINKED * (weights @ near).clip(0, None)))


def _middles(task: ColdTask) -> Middles:
    return Middles(task.source_means, task.target_means)


def _neighbourhood(
    row: Matrix, place: int, settings: tuple[int, float, float], source: RandomSource
) -> tuple[NDArray[np.int64], Matrix]:
    """Return the neighbours of an item, which is none itself, and what is released of them."""
    own = np.delete(row, place)  # which item it is of is public
    noise = _noise(*settings)
    chosen = _chooser(*settings).release(own, source)
    released = noise.release(own[chosen], source).clip(-1, 1) * _trust(noise)
    return chosen + (chosen >= place), released


def _trust(noise: GaussianSimilarities) -> float:
    if noise.epsilon == math.inf:
        return 1.0
    variance = float(noise.law.variance) * noise.grid**2
    return _TYPICAL**2 / (_TYPICAL**2 + variance)


@lru_cache(maxsize=64)
def _replacement(epsilon: float, delta: float) -> PrivateReplacement:
    return PrivateReplacement(epsilon, delta)


@lru_cache(maxsize=64)
def _chooser(k: int, epsilon: float, delta: float) -> PrivateNeighbours:
    return PrivateNeighbours(k, epsilon, delta)


@lru_cache(maxsize=64)
def _noise(k: int, epsilon: float, delta: float) -> GaussianSimilarities:
    return GaussianSimilarities(k, epsilon, delta, DELTA)

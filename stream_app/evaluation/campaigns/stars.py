"""Ratings that devices predict after a whole *stars* campaign.

A random split by a seed, as in `one-pass`: every person contributes what is in the first 80 %, is
folded in with it, and predicts own ratings of the last 10 %. RMSE is in the data's own units.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.campaigns.features import Features
from stream_app.campaigns.learning import stars_learning as learning
from stream_app.campaigns.plan import MAX_INTEGERS
from stream_app.campaigns.planning import Outline, plan
from stream_app.campaigns.rated_items import RatedItems
from stream_app.campaigns.stars.fold_in import MEAN, fold_in, predict
from stream_app.campaigns.stars.recipe import recipe
from stream_app.campaigns.stars.side import StarsSide
from stream_app.evaluation.campaigns.runs import Budget, run
from stream_app.evaluation.results import EvaluationData, item_means, rms, split
from stream_app.privacy.randomness import SeededSource

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class CampaignStars:
    """The errors of devices' predictions after a campaign, in the data's units.

    epsilon, delta: of a person with everything rated. rmse_baseline: of the items' true means.
    meta: whether public features of items were used. stage_bytes: of the largest contribution.
    device_milliseconds: process time of a device in the stage that takes longest, on average.
    """

    mode: str
    epsilon: float
    delta: float
    meta: bool
    people: int
    items: int
    factors: int
    stages: tuple[str, ...]
    events: int
    rmse: float
    mae: float
    rmse_baseline: float
    stage_bytes: int
    device_milliseconds: float


class Population(NamedTuple):
    """Everybody's ratings over a scope of items, most rated first, and what is tested.

    own: by user; places: of the tested items in the scope, -1 outside; users: of the tested rows.
    """

    own: list[RatedItems]
    scope: NDArray[np.uint64]
    users: NDArray[np.intp]
    places: NDArray[np.intp]
    tested: NDArray[np.int64]
    learned: NDArray[np.int64]


def evaluate_stars(
    data: EvaluationData,
    budget: Budget,
    *,
    features: Callable[[NDArray[np.uint64]], Features] | None = None,
    seed: int = 0,
    progress: Callable[[int, int], object] = lambda done, total: None,  # noqa: ARG005
) -> CampaignStars:
    """Run a campaign over the people of the data and return the errors of their predictions.

    features: genres and years of items (n,). `progress` is called with the contributions made and
    their total. Raises ValueError for fewer than 10 ratings.
    """
    if len(data.users) < 10:
        raise ValueError(f"{len(data.users)} ratings: at least 10 are needed to evaluate")
    crowd = population(data, most_items(budget.epsilon), seed)
    outline = Outline(budget.epsilon, budget.delta, budget.parties, ("stars",))
    known = None if features is None else features(crowd.scope)
    planned = plan(outline, range(len(crowd.scope)), features=known)
    done = 0

    def add(people: int) -> None:
        nonlocal done
        done += people
        progress(done, len(planned.stages) * len(crowd.own))

    found, seconds = run(planned, crowd.own, SeededSource(seed), contributed=add)
    side = found.stars
    assert side is not None
    errors = data.truth.errors(_predicted(side, crowd), crowd.tested)
    ratings = data.truth.ratings
    means = item_means(data.items[crowd.learned], ratings[crowd.learned], data.items[crowd.tested])
    return CampaignStars(
        mode=budget.mode,
        epsilon=float(budget.epsilon),
        delta=float(budget.delta),
        meta=features is not None,
        people=len(crowd.own),
        items=len(crowd.scope),
        factors=side.vectors.shape[1],
        stages=tuple(stage.kind for stage in planned.stages),
        events=len(crowd.tested),
        rmse=rms(errors),
        mae=float(np.abs(errors).mean()),
        rmse_baseline=rms(means - ratings[crowd.tested]),
        stage_bytes=4 * max(stage.size for stage in planned.stages),
        device_milliseconds=1000 * max(seconds) / max(len(crowd.own), 1),
    )


def most_items(epsilon: Fraction) -> int:
    """Return the largest scope whose contributions fit in a record."""
    return MAX_INTEGERS // (1 + recipe(epsilon).factors)


def population(data: EvaluationData, most: int, seed: int) -> Population:
    """Return the people of a random split; an item that is rated again counts as rated last."""
    learned, _, tested = split(len(data.users), seed)
    learned = np.sort(learned)
    keys, counts = np.unique(data.items, return_counts=True)
    scope = keys[np.argsort(-counts, kind="stable")[:most]]
    order = np.argsort(scope)
    at = np.minimum(np.searchsorted(scope[order], data.items), len(scope) - 1)
    places = np.where(scope[order][at] == data.items, order[at], -1)
    _, users = np.unique(data.users, return_inverse=True)
    width = data.truth.highest - data.truth.lowest
    values = 1 + 4 * (data.truth.ratings - data.truth.lowest) / width
    rows = learned[places[learned] >= 0]
    _, last = np.unique((users[rows] * len(scope) + places[rows])[::-1], return_index=True)
    rows = np.sort(rows[len(rows) - 1 - last])
    rows = rows[np.argsort(users[rows], kind="stable")]
    bounds = np.searchsorted(users[rows], np.arange(int(users.max()) + 2))
    own = []
    for first, after in itertools.pairwise(bounds):
        stars_of = values[rows[first:after]]
        own.append(RatedItems(places[rows[first:after]], stars_of, stars_of >= 4))
    return Population(own, scope, users[tested], places[tested], tested, learned)


def _predicted(side: StarsSide, crowd: Population) -> Floats:
    """Return what each tested user's device expects, on 1 .. 5."""
    found = np.empty(len(crowd.users))
    order = np.argsort(crowd.users, kind="stable")
    bounds = np.searchsorted(crowd.users[order], np.arange(len(crowd.own) + 1))
    for user, rated in enumerate(crowd.own):
        rows = order[bounds[user] : bounds[user + 1]]
        if not len(rows):
            continue
        person, places = fold_in(side, rated), crowd.places[rows]
        unknown = np.clip(MEAN + learning.UNKNOWN_BIAS + person.bias, 1, 5)
        found[rows] = np.where(places >= 0, predict(side, person, np.maximum(places, 0)), unknown)
    return found

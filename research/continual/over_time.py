"""Predictions over time: each rating is predicted before it is learned, while the public side is
refreshed round after round."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from research.continual.forms import Rounds, again, running
from research.continual.running_factor import Factor
from research.continual.timeline import Timeline
from stream_app.campaigns.features import Features
from stream_app.campaigns.stars.recipe import recipe
from stream_app.campaigns.stars.side import StarsSide
from stream_app.evaluation.campaigns.runs import Budget
from stream_app.evaluation.campaigns.stars import most_items
from stream_app.evaluation.results import EvaluationData, rms, running_item_means
from stream_app.privacy.randomness import SeededSource

PARTS = 10
MOST_ROUNDS = 32
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class OverTime:
    """RMSE in the data's units in each of ten equal parts of the ratings, and in the last fifth."""

    name: str
    rmse: tuple[float, ...]
    last_fifth: float


@dataclass(frozen=True)
class CampaignsOverTime:
    """The errors of predictions over time of each form, and of the running means of items.

    epsilon, delta: of a person, for all that is sent in all rounds. growth: how much wider the
    noise of a running sum is after the last round than that of one release. rmse, rmse_again,
    rmse_baseline: the last fifth of the running form, of whole campaigns, and of true item means.
    """

    mode: str
    epsilon: float
    delta: float
    meta: bool
    rounds: int
    people: int
    items: int
    events: int
    growth: float
    rmse: float
    rmse_again: float
    rmse_baseline: float
    forms: tuple[OverTime, ...]


def evaluate_over_time(
    data: EvaluationData,
    budget: Budget,
    rounds: int,
    *,
    features: Callable[[NDArray[np.uint64]], Features] | None = None,
    seed: int = 0,
    progress: Callable[[int, int], object] = lambda done, total: None,  # noqa: ARG005
) -> CampaignsOverTime:
    """Refresh the public side after each of so many equal parts of the ratings, in both forms.

    data: in time order. features: genres and years of items (n,). `progress` is called with the
    contributions made and their total. Raises ValueError for fewer than 10 ratings, or rounds out
    of range.
    """
    n = len(data.users)
    if n < PARTS:
        raise ValueError(f"{n} ratings: at least {PARTS} are needed to evaluate")
    if not 2 <= rounds <= min(MOST_ROUNDS, n):
        raise ValueError(f"{rounds} rounds: give 2 to {min(MOST_ROUNDS, n)}")
    line = Timeline(data, most_items(budget.epsilon))
    known = None if features is None else features(line.scope)
    ends = tuple(n * (number + 1) // rounds for number in range(rounds))
    terms = Rounds(line, ends, known, _counted(line, ends, budget, progress))
    factor = Factor.square_root(rounds)
    sides = {
        "again": again(terms, budget, SeededSource(seed)),
        "running": running(terms, budget, SeededSource(seed), factor),
    }
    errors = {
        name: data.truth.errors(predicted(terms, found), np.arange(n))
        for name, found in sides.items()
    }
    middle = (data.truth.lowest + data.truth.highest) / 2
    means = running_item_means(data.items, data.truth.ratings, middle)
    errors["item means"] = means - data.truth.ratings
    forms = [_over_time(name, found) for name, found in errors.items()]
    return CampaignsOverTime(
        mode=budget.mode,
        epsilon=float(budget.epsilon),
        delta=float(budget.delta),
        meta=features is not None,
        rounds=rounds,
        people=line.people,
        items=len(line.scope),
        events=n - n * 4 // 5,
        growth=factor.growth(rounds - 1),
        rmse=forms[1].last_fifth,
        rmse_again=forms[0].last_fifth,
        rmse_baseline=forms[2].last_fifth,
        forms=tuple(forms),
    )


def _counted(
    line: Timeline,
    ends: tuple[int, ...],
    budget: Budget,
    progress: Callable[[int, int], object],
) -> Callable[[int], None]:
    """Return what adds up the contributions of both forms; the last round predicts nothing."""
    stages = len(recipe(budget.epsilon).wanted(len(line.scope)))
    joined = [len(line.joined(0, end)) for end in ends[:-1]]
    total, done = stages * (joined[-1] + sum(joined)), 0

    def add(people: int) -> None:
        nonlocal done
        done += people
        progress(done, total)

    return add


def predicted(rounds: Rounds, sides: Iterable[StarsSide]) -> Floats:
    """Return what devices expect of every rating (n,) on 1 .. 5, each by the side of its moment;
    before the first round ends devices have the public mean and features alone."""
    line, found = rounds.line, []
    start = rounds.start(1)
    parts = pairwise((0, *rounds.ends))  # first in zip: the last side would predict nothing
    for (first, after), side in zip(parts, chain([start], sides), strict=False):
        found.append(line.predicted(side, first, after))
    return np.concatenate(found)


def _over_time(name: str, errors: Floats) -> OverTime:
    n = len(errors)
    parts = pairwise(n * part // PARTS for part in range(PARTS + 1))
    by_part = tuple(rms(errors[first:after]) for first, after in parts)
    return OverTime(name, by_part, rms(errors[n * 4 // 5 :]))

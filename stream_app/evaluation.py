"""How well a learner predicts a data set: what is measured when the true ratings are known.

    prequential    every rating in time order is predicted, then learned; the error is over all
    one-pass       a random 80 / 10 / 10 split by a seed: learn the first part once in random
                   order, predict the last; the middle part is left for tuning

The learner sees reports only. RMSE and MAE compare clipped predictions with the TRUE ratings, in
the data's own units. The baseline predicts each item's mean of true ratings, shrunken by `_SHRINK`
towards the overall mean: running means for prequential, those of the learned part for one-pass. No
learner may do worse and be worth its epsilon.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from stream_app.models.learner import Learner

Protocol = Literal["prequential", "one-pass"]
PROTOCOLS: tuple[Protocol, ...] = ("prequential", "one-pass")
_BATCH = 8192
_SHRINK = 5.0


@dataclass(frozen=True)
class Result:
    """What came out; `rmse`, `mae` and `rmse_baseline` are in the data's units."""

    protocol: str
    model: str
    mechanism: str
    epsilon: float | None
    events: int
    rmse: float
    mae: float
    rmse_baseline: float
    events_per_second: float


@dataclass(frozen=True, eq=False)
class Truth:
    """The true ratings of the events (n,), and the ends of their scale."""

    ratings: NDArray[np.float64]
    lowest: float
    highest: float

    def __post_init__(self) -> None:
        if not self.lowest < self.highest:
            raise ValueError(f"scale {self.lowest} .. {self.highest}: the maximum must be above")


def evaluate(
    users: NDArray[np.uint64],
    items: NDArray[np.uint64],
    reports: NDArray[np.uint8],
    truth: Truth,
    learner: Learner,
    *,
    protocol: str = "prequential",
    mechanism: str = "none",
    epsilon: float | None = None,
    seed: int = 0,
    progress: Callable[[int], None] = lambda events: None,  # noqa: ARG005 (a silent default)
) -> Result:
    """Return how well a fresh `learner` predicts; its channel number 0 is that of the reports.

    The columns are in time order. `progress` is told how many events were just done.
    """
    if protocol not in PROTOCOLS:
        raise ValueError(f"protocol {protocol!r}: choose one of {', '.join(PROTOCOLS)}")
    lengths = {len(users), len(items), len(reports), len(truth.ratings)}
    if len(lengths) > 1:
        raise ValueError(f"columns of {sorted(lengths)} rows: all must have one length")
    if len(users) < 10:
        raise ValueError(f"{len(users)} ratings: at least 10 are needed to evaluate")
    ratings, everything = truth.ratings, np.arange(len(users))
    if protocol == "prequential":
        learned = tested = everything
        predicted, seconds = _learn(learner, users, items, reports, everything, progress)
        baseline = running_item_means(items, ratings, (truth.lowest + truth.highest) / 2)
    else:
        learned, _, tested = split(len(users), seed)
        _, seconds = _learn(learner, users, items, reports, learned, progress)
        predicted = learner.predict_many(users[tested], items[tested])
        baseline = item_means(items[learned], ratings[learned], items[tested])
    errors = truth.lowest + (predicted - 1) / 4 * (truth.highest - truth.lowest) - ratings[tested]
    return Result(
        protocol=protocol,
        model=learner.name,
        mechanism=mechanism,
        epsilon=epsilon,
        events=len(tested),
        rmse=_rms(errors),
        mae=float(np.abs(errors).mean()),
        rmse_baseline=_rms(baseline - ratings[tested]),
        events_per_second=len(learned) / max(seconds, 1e-9),
    )


def split(events: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows of the three parts, 80 / 10 / 10, each in random order."""
    order = np.random.default_rng(seed).permutation(events)
    first, second = events * 8 // 10, events * 9 // 10
    return order[:first], order[first:second], order[second:]


def running_item_means(
    items: NDArray[np.uint64], ratings: NDArray[np.float64], start: float
) -> NDArray[np.float64]:
    """Return for each row the shrunken mean of its item over the rows before it, `start` before
    all.
    """
    n = np.arange(len(items), dtype=np.float64)
    overall = (np.cumsum(ratings) - ratings + _SHRINK * start) / (n + _SHRINK)
    order = np.argsort(items, kind="stable")
    of_item, sums = items[order], np.cumsum(ratings[order]) - ratings[order]
    begins = np.searchsorted(of_item, of_item)  # where each row's item starts
    before = np.empty_like(sums)
    counts = np.empty_like(sums)
    before[order] = sums - sums[begins]
    counts[order] = n - begins
    return (before + _SHRINK * overall) / (counts + _SHRINK)


def item_means(
    items: NDArray[np.uint64], ratings: NDArray[np.float64], wanted: NDArray[np.uint64]
) -> NDArray[np.float64]:
    """Return the shrunken mean of each wanted item over the given rows."""
    known, rows = np.unique(items, return_inverse=True)
    counts, sums = np.bincount(rows), np.bincount(rows, ratings)
    overall = ratings.mean()
    means = np.append((sums + _SHRINK * overall) / (counts + _SHRINK), overall)
    at = np.searchsorted(known, wanted)
    found = (at < len(known)) & (known[np.minimum(at, len(known) - 1)] == wanted)
    return np.asarray(means[np.where(found, at, len(known))])


def _learn(
    learner: Learner,
    users: NDArray[np.uint64],
    items: NDArray[np.uint64],
    reports: NDArray[np.uint8],
    rows: NDArray[np.int64],
    progress: Callable[[int], None],
) -> tuple[NDArray[np.float64], float]:
    """Learn `rows` in their order; return the predictions made before learning, and process
    seconds.
    """
    zeros, all_of_them = np.zeros(_BATCH, np.uint8), np.ones(_BATCH, np.bool_)
    predicted, seconds = np.empty(len(rows)), 0.0
    # Compiles before the clock starts: an event that is not learned changes nothing.
    learner.predict_many(users[:1], items[:1])
    for first in range(0, len(rows), _BATCH):
        part = rows[first : first + _BATCH]
        columns = users[part], items[part], reports[part]
        began = time.process_time()
        lessons = learner.learn_many(*columns, zeros[: len(part)], all_of_them[: len(part)])
        seconds += time.process_time() - began
        predicted[first : first + len(part)] = lessons.predicted
        progress(len(part))
    return predicted, seconds


def _rms(errors: NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean(errors**2)))

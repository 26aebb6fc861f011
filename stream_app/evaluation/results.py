"""Input and result of an evaluation, and the baselines without a user model.

A baseline is each item's mean of the TRUE ratings, shrunken towards the overall mean with the
weight of five ratings: running means for prequential, those of the learned part for one-pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class EvaluationResult:
    """The figures of one evaluation; `rmse`, `mae` and `rmse_baseline` are in the data's units.

    learned: ratings, or published cells, that were learned. scope, cells: items and cells that
    every user and all users sent where presence is protected, else 0.

    Where likes are reported, the errors are those of the predicted P(liked) against the true bit of
    a cell, 0 or 1; `log_loss` is its log-loss in nats a cell, `log_loss_baseline` that of the
    items' true shares of likes, and `likes_reported` counts the reports "liked". Else None.
    rmse_parts: the RMSE of each twentieth of a stream, which prequential errors alone have.
    """

    protocol: str
    model: str
    mechanism: str
    epsilon: float | None
    events: int
    rmse: float
    mae: float
    rmse_baseline: float
    events_per_second: float
    learned: int
    scope: int = 0
    cells: int = 0
    log_loss: float | None = None
    log_loss_baseline: float | None = None
    likes_reported: int | None = None
    rmse_parts: tuple[float, ...] = ()


@dataclass(frozen=True)
class ExperimentRow:
    """The figures of one cell of an experiment; None where the cell has no such figure.

    adjacency: what `epsilon` is of: the `value` of a rating, a `cell`, a `user` with everything
    rated, or `nothing`. split: of lists; of ratings `prequential` or `scope`. baseline:
    the items' means beside `rmse` (their shares beside `log_loss`), popular items beside `ndcg`.
    rmse_parts: as in `EvaluationResult`. seconds: of the wall clock.
    """

    model: str
    mechanism: str
    split: str
    seed: int
    adjacency: str
    epsilon: float | None
    seconds: float
    rmse: float | None = None
    mae: float | None = None
    log_loss: float | None = None
    ndcg: float | None = None
    recall: float | None = None
    coverage: float | None = None
    baseline: float | None = None
    learned: int | None = None
    rmse_parts: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class TrueRatings:
    """The true ratings of the events (n,), and the ends of their scale."""

    ratings: NDArray[np.float64]
    lowest: float
    highest: float

    def __post_init__(self) -> None:
        if not self.lowest < self.highest:
            raise ValueError(f"scale {self.lowest} .. {self.highest}: the maximum must be above")

    def errors(
        self, predicted: NDArray[np.float64], rows: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return the errors of predictions on 1 .. 5 of some rows, in the data's units."""
        width = self.highest - self.lowest
        return np.asarray(self.lowest + (predicted - 1) / 4 * width - self.ratings[rows])


class EvaluationData(NamedTuple):
    """The events of a data set in time order: keys of users and items (n,), and the truth."""

    users: NDArray[np.uint64]
    items: NDArray[np.uint64]
    truth: TrueRatings


def split(events: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows of the three parts, 80 / 10 / 10, each in random order."""
    order = np.random.default_rng(seed).permutation(events)
    first, second = events * 8 // 10, events * 9 // 10
    return order[:first], order[first:second], order[second:]


def rms(errors: NDArray[np.float64]) -> float:
    """Return the root of the mean square."""
    return float(np.sqrt(np.mean(errors**2)))


PARTS = 20  # of a stream


def rms_of_parts(errors: NDArray[np.float64], parts: int) -> tuple[float, ...]:
    """Return the root of the mean square of each part of the errors, in their order."""
    return tuple(rms(each) for each in np.array_split(errors, min(parts, len(errors))))


_SHRINK = 5.0


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

"""Input and result of an evaluation."""

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

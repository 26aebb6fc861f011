"""The figures of lists: one row for every way to make them.

where     server: from what the server holds; device: from the clean history and what the server
          publishes; baseline: from everybody's true ratings
popularity share    of the twentieth of the items that most users have rated
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.evaluation.ranking.task import RankingTask
from stream_app.ranking import list_quality

_POPULAR_PARTS = 20


@dataclass(frozen=True)
class RankingRow:
    """The figures of one way to make lists; NaN where too few users or items leave none."""

    method: str
    where: str
    history: str
    ndcg: float
    recall: float
    hit_rate: float
    coverage: float
    overlap: float
    popularity_share: float


@dataclass(frozen=True)
class RankingResult:
    """The figures of the lists that a device makes, and a row for every other way.

    `ndcg` to `popularity_share`, `method`, `where` and `history` are those of `rows[0]`; the
    `ndcg_...` are those of the baselines. users: tested ones; items: known ones, which are ranked;
    learned: ratings, or published cells; scope, cells: as in `EvaluationResult`. in_time: False
    where the data have no times. serving: the method that a server would serve by, as it measured
    them on the stream.
    """

    protocol: str
    split: str
    k: int
    model: str
    mechanism: str
    epsilon: float | None
    method: str
    where: str
    history: str
    ndcg: float
    recall: float
    hit_rate: float
    coverage: float
    overlap: float
    popularity_share: float
    ndcg_popular: float
    ndcg_item_means: float
    ndcg_item_neighbours: float
    ndcg_clean_ease: float
    users: int
    items: int
    learned: int
    scope: int
    cells: int
    in_time: bool
    serving: str
    rows: tuple[RankingRow, ...]


class Way(NamedTuple):
    """A way to make lists: its name, where it is done, what is known of the history; the lists."""

    method: str
    where: str
    history: str
    lists: NDArray[np.intp]  # (t, k) places of items, best first, -1 where there are fewer


def row_of(task: RankingTask, way: Way) -> RankingRow:
    """Return the figures of the lists of the tested users."""
    lists = way.lists
    relevant = [task.relevant.of_user(user)[0] for user in range(len(task.tested))]
    return RankingRow(
        method=way.method,
        where=way.where,
        history=way.history,
        ndcg=list_quality.ndcg(lists, relevant),
        recall=list_quality.recall(lists, relevant),
        hit_rate=list_quality.hit_rate(lists, relevant),
        coverage=list_quality.coverage(lists, len(task.items)),
        overlap=list_quality.overlap(lists),
        popularity_share=list_quality.popularity_share(lists, _popular(task)),
    )


def _popular(task: RankingTask) -> NDArray[np.intp]:
    counts = np.bincount(task.learned.items, minlength=len(task.items))
    return np.argsort(-counts, kind="stable")[: -(-len(counts) // _POPULAR_PARTS)]

"""Lists by how items go together, from the TRUE ratings of the learned part.

    cosine              mean over the history of the cosine to it, damped by 20 raters or not; by
                        recency where the order is known
    slope-one           predicted stars, damped towards the means by 20 co-raters or not

(Park and Acharya 2011, equations 3 to 8; `stream_app.ranking.similarity`.) Both know the 4,096 most
rated items; the others follow, by popularity. Predicted stars are no way to make lists: what few
users have rated and liked is first. They are there to be compared.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.evaluation.ranking.baselines import below_all, head_of
from stream_app.evaluation.ranking.lists import Scorer, lists_of
from stream_app.evaluation.ranking.results import Way
from stream_app.evaluation.ranking.task import RankingTask
from stream_app.ranking.similarity import cosine, slope_one, table

DAMPING, LEAST_PROFILE = 20.0, 20

Score = Callable[[NDArray[np.int64], NDArray[np.float64]], NDArray[np.float32]]
"""Return the scores of all head items from slots and stars of a history."""


class _History(NamedTuple):
    slots: NDArray[np.int64]
    stars: NDArray[np.float64]


def co_rated_lists(
    task: RankingTask, stars: NDArray[np.float64], k: int, *, in_order: bool = False
) -> list[Way]:
    """Return the lists of the tested users by each of four methods, and with `in_order` by damped
    cosine and recency; stars (n,): the learned ratings on 1 .. 5."""
    learned, head = task.learned, head_of(task)
    found = table.from_ratings(learned.users, learned.items, stars, head)
    histories = [
        _History(found.slots(learned.items[rows]), stars[rows]) for rows in task.learned_rows()
    ]
    methods: dict[str, Callable[[], Score]] = {
        "cosine": lambda: _by_cosine(cosine.similarities(found)),
        "damped cosine": lambda: _by_cosine(cosine.similarities(found, DAMPING)),
        "slope-one": lambda: _by_stars(slope_one.deviations(found), None),
        "damped slope-one": lambda: _by_stars(
            slope_one.deviations(found, DAMPING, towards_means=True), LEAST_PROFILE
        ),
    }
    ways = []
    for name, make in methods.items():
        scorer = _scorer(task, head, histories, make())
        ways.append(Way(name, "baseline", "clean", lists_of(task, scorer, k)))
    if in_order:
        score = _by_recency(cosine.similarities(found, DAMPING))
        lists = lists_of(task, _scorer(task, head, histories, score), k)
        ways.append(Way("damped cosine", "baseline", "clean, by recency", lists))
    return ways


def _by_cosine(similarities: NDArray[np.float32]) -> Score:
    return lambda slots, stars: cosine.scores(similarities, slots, LEAST_PROFILE)  # noqa: ARG005


def _by_recency(similarities: NDArray[np.float32]) -> Score:
    return lambda slots, stars: cosine.scores(
        similarities, slots, LEAST_PROFILE, cosine.recency_weights(len(stars))
    )


def _by_stars(deviations: NDArray[np.float32], least_profile: int | None) -> Score:
    return partial(_predicted, deviations, least_profile)


def _predicted(
    deviations: NDArray[np.float32],
    least_profile: int | None,
    slots: NDArray[np.int64],
    stars: NDArray[np.float64],
) -> NDArray[np.float32]:
    return slope_one.predict(deviations, slots, stars, least_profile)


def _scorer(
    task: RankingTask, head: NDArray[np.intp], histories: list[_History], score: Score
) -> Scorer:
    below = below_all(task)

    def scores(first: int, last: int) -> NDArray[np.floating]:
        found = np.broadcast_to(below, (last - first, len(below))).copy()
        for row, history in enumerate(histories[first:last]):
            found[row, head] += score(*history)
        return found

    return scores

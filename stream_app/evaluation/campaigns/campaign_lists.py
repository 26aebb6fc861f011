"""Lists that devices make before a campaign and after one *together* stage over the whole budget.

The scope models a public list of popular items, in its order: the most rated ones of the file. It
is ranked alone, so a list may miss items outside it, by the scores of a device
(`campaigns/item_scores.py`). Before the campaign they are the prior, which costs no budget.
Popularity, to compare with, is that of the true ratings of all items.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.campaigns.item_scores import ItemScores
from stream_app.campaigns.planning import Outline, plan
from stream_app.campaigns.public_side import PublicSide
from stream_app.campaigns.rated_items import RatedItems
from stream_app.evaluation.campaigns.runs import Budget, run
from stream_app.evaluation.ranking import RankingRow, RankingTask, Way, baselines, lists_of, row_of
from stream_app.privacy.randomness import SeededSource

SCOPE = 300
LARGEST_SCOPE = 309  # 47,895 integers, the most that one record holds


class ListOptions(NamedTuple):
    """The length of a list, what is held out, and how many items are ranked: None for 300 or all
    that there are."""

    k: int = 10
    split: str = "user-time"
    scope: int | None = None

    def items(self, known: int) -> int:
        """Return how many of the known items are ranked; ValueError for `k` or `scope` out of
        range."""
        scope = min(SCOPE, known) if self.scope is None else self.scope
        if not 2 <= scope <= min(known, LARGEST_SCOPE):
            raise ValueError(
                f"scope {scope}: give 2 to {min(known, LARGEST_SCOPE)}; the data have {known} "
                f"items, and a contribution holds those of {LARGEST_SCOPE} at most"
            )
        if not 1 <= self.k <= scope:
            raise ValueError(
                f"k {self.k}: {scope} items of the scope are ranked; give 1 to {scope}"
            )
        return scope


@dataclass(frozen=True)
class CampaignLists:
    """The figures of the lists after a campaign; `ndcg` is that of `rows[0]`, `ndcg_prior` that of
    the same lists before it.

    epsilon, delta: of a person with everything rated. directions: of taste above the noise; with
    fewer than three the lists are by the prior. meta: whether public features of items were used.
    people: devices that contributed. device_milliseconds: process time of one device's
    contribution, on average.
    """

    mode: str
    epsilon: float
    delta: float
    meta: bool
    split: str
    k: int
    scope: int
    people: int
    users: int
    items: int
    directions: int
    ndcg: float
    ndcg_prior: float
    ndcg_popular: float
    contribution_bytes: int
    device_milliseconds: float
    rows: tuple[RankingRow, ...]


def evaluate_lists(
    task: RankingTask,
    budget: Budget,
    options: ListOptions,
    *,
    stars: NDArray[np.float64],
    features: Callable[[NDArray[np.uint64]], NDArray[np.float64]] | None = None,
    in_time: bool = True,
    seed: int = 0,
    progress: Callable[[int], None] = lambda people: None,  # noqa: ARG005 (a silent default)
) -> CampaignLists:
    """Let every learned user contribute, and return the figures of the tested users' lists.

    stars (n,): the learned ratings on 1 .. 5. `features` gives those of items by their keys. Raises
    ValueError for options out of range. `progress` is called with the number of devices that have
    just contributed.
    """
    k, items = options.k, options.items(len(task.items))
    outline = Outline(budget.epsilon, budget.delta, budget.parties, together_items=items)
    planned = plan(outline, range(items))
    (stage,) = planned.stages
    public, own = _histories(task, items, stars)
    known = None if features is None else features(task.items[public])
    found, (seconds,) = run(planned, own, SeededSource(seed), contributed=progress)
    assert found.together is not None
    histories = {"clean, by recency": True, "clean": False} if in_time else {"clean": False}
    ways = [
        Way(method, "device", history, _lists(task, scores, (public, own), k, by_recency))
        for method, side in (
            ("together", found),
            ("prior", PublicSide(planned.number, planned.scope)),
        )
        for scores in (ItemScores(side, known),)
        for history, by_recency in histories.items()
    ]
    ways.append(Way("popular", "baseline", "none", lists_of(task, baselines.popular(task), k)))
    rows = tuple(row_of(task, way) for way in ways)
    return CampaignLists(
        mode=budget.mode,
        epsilon=float(budget.epsilon),
        delta=float(budget.delta),
        meta=features is not None,
        split=options.split,
        k=k,
        scope=items,
        people=len(task.users),
        users=len(task.tested),
        items=len(task.items),
        directions=len(found.together.weights),
        ndcg=rows[0].ndcg,
        ndcg_prior=rows[len(histories)].ndcg,
        ndcg_popular=rows[-1].ndcg,
        contribution_bytes=4 * stage.size,
        device_milliseconds=1000 * seconds / len(task.users),
        rows=rows,
    )


def _histories(
    task: RankingTask, items: int, stars: NDArray[np.float64]
) -> tuple[NDArray[np.intp], list[RatedItems]]:
    """Return the items of the scope, most rated first, and every user's ratings over it."""
    learned = task.learned
    counts = np.bincount(learned.items, minlength=len(task.items))
    public = np.argsort(-counts, kind="stable")[:items]
    place = np.full(len(task.items), items, np.intp)
    place[public] = np.arange(items)
    rows = np.flatnonzero(place[learned.items] < items)
    rows = rows[np.argsort(learned.users[rows], kind="stable")]
    bounds = np.searchsorted(learned.users[rows], np.arange(len(task.users) + 1))
    own = []
    for user in range(len(task.users)):
        chosen = rows[bounds[user] : bounds[user + 1]]
        own.append(RatedItems(place[learned.items[chosen]], stars[chosen], learned.liked[chosen]))
    return public, own


def _lists(
    task: RankingTask,
    item_scores: ItemScores,
    known: tuple[NDArray[np.intp], list[RatedItems]],
    k: int,
    by_recency: bool,
) -> NDArray[np.intp]:
    """Return the lists (t, k) of the tested users; items outside the scope are in none."""
    public, own = known

    def scores(first: int, last: int) -> NDArray[np.floating]:
        found = np.full((last - first, len(task.items)), -np.inf)
        for row, user in enumerate(task.tested[first:last].tolist()):
            found[row, public] = item_scores.of_person(own[user], by_recency=by_recency)
        return found

    return lists_of(task, scores, k)

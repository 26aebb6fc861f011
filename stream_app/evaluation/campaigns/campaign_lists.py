"""Lists that devices make before a campaign and after one *together* stage over the whole budget.

The scope models a public list of popular items, in its order: the most rated ones of the file. It
is ranked alone, so a list may miss items outside it, by the scores of a device
(`campaigns/item_scores.py`). Before the campaign they are the prior, which costs no budget.
Popularity, to compare with, is that of the true ratings of all items.

The noisy sum of a stage, and a whole campaign, are over people in one process: vectors, sums and
learning are those of the live system (`campaigns/together.py`, `campaigns/learning.py`); sealing,
the log and the parties' own noise are not here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.campaigns import learning, together
from stream_app.campaigns.contribution_vectors import is_within
from stream_app.campaigns.item_scores import ItemScores
from stream_app.campaigns.plan import Campaign, Stage
from stream_app.campaigns.planning import Outline, plan
from stream_app.campaigns.public_side import PublicSide
from stream_app.campaigns.rated_items import RatedItems
from stream_app.evaluation.ranking import RankingRow, RankingTask, Way, baselines, lists_of, row_of
from stream_app.privacy.gaussian.sampling import discrete_gaussian
from stream_app.privacy.randomness import RandomSource, SeededSource

_TOGETHER = 100


class Run(NamedTuple):
    """The public side after every stage, and seconds of process time a stage, over all people."""

    side: PublicSide
    seconds: list[float]


def run(
    plan: Campaign,
    own: Sequence[RatedItems],
    source: RandomSource,
    *,
    contributed: Callable[[int], object] = lambda people: None,  # noqa: ARG005
) -> Run:
    """Let every person contribute to every stage and return what is public in the end.

    `contributed` is called with how many people have just contributed.
    """
    side, seconds = PublicSide(plan.number, plan.scope), []
    for index, stage in enumerate(plan.stages):
        sent, clock = _sent(plan, index, own), _Clock()
        summed = noisy_sum(clock.timed(sent, contributed), stage, plan.parties, source)
        side = learning.learn(plan, index, summed)
        seconds.append(clock.seconds)
    return Run(side, seconds)


def _sent(plan: Campaign, index: int, own: Sequence[RatedItems]) -> Iterator[NDArray[np.int32]]:
    return (together.contribution(plan.stages[index], rated) for rated in own)


class _Clock:
    """Measures what an iterator takes, apart from what is done with its items."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def timed(
        self, sent: Iterator[NDArray[np.int32]], contributed: Callable[[int], object]
    ) -> Iterator[NDArray[np.int32]]:
        """Yield every item, and report them by the hundred and at the end."""
        people, began = 0, time.process_time()
        for each in sent:
            self.seconds += time.process_time() - began
            yield each
            people += 1
            if people % _TOGETHER == 0:
                contributed(_TOGETHER)
            began = time.process_time()
        contributed(people % _TOGETHER)


DELTA = Fraction(1, 10**6)
MODES: dict[str, Literal[1, 2]] = {"central": 1, "split": 2}
"""How many parties add noise: one trusted aggregator, or two of which one is honest."""


class Budget(NamedTuple):
    """What a person spends on one campaign, and by which mode."""

    epsilon: Fraction
    delta: Fraction
    mode: str

    @property
    def parties(self) -> Literal[1, 2]:
        """How many parties add noise."""
        return MODES[self.mode]


def exact_sum(contributions: Iterable[NDArray[np.int32]], stage: Stage) -> NDArray[np.int64]:
    """Return the sum (stage.size,) of the contributions.

    Raises ValueError for a contribution of another length or longer than the bound: the budget
    would not hold.
    """
    total = np.zeros(stage.size, np.int64)
    for each in contributions:
        if len(each) != stage.size or not is_within(each, stage.bound):
            raise ValueError(
                f"stage {stage.kind}: a contribution of {len(each)} integers is outside its size "
                f"{stage.size} or bound {stage.bound}"
            )
        total += each
    return total


def noisy_sum(
    contributions: Iterable[NDArray[np.int32]], stage: Stage, parties: int, source: RandomSource
) -> NDArray[np.int64]:
    """Return the sum (stage.size,) of the contributions, with the noise of each party.

    Raises ValueError as `exact_sum` does.
    """
    total = exact_sum(contributions, stage)
    for _ in range(parties):
        total += discrete_gaussian(Fraction(stage.variance), stage.size, source)
    return total


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

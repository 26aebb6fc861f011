"""Quality of the lists of a model that learns sanitized ratings.

>>> from murmurec import evaluate_ranking
>>> users = [user for user in range(60) for _ in range(12)]
>>> items = [(user % 3 + 3 * k + user) % 40 for user in range(60) for k in range(12)]
>>> ratings = [1 + (user + item) % 5 for user, item in zip(users, items)]
>>> result = evaluate_ranking((users, items, ratings, range(720)), "rr:5:2", model="dense")
>>> result.split, result.k, result.mechanism
('user-time', 10, 'rr:5:2')
>>> 0 <= result.ndcg <= 1
True

The reports pass through a worker's own state (`LearnedServer`), in time order; the noise comes from
a seed, so that a figure can be repeated; nothing is sent. `stream_app.evaluation.ranking` says what
is held out and what is counted. Data without times are put in a random order by the seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial

import numpy as np

from murmurec.learned_server import CleanRatings, LearnedServer
from murmurec.learner_evaluation import Progress, mechanism_of, scope_of, sizes_of
from murmurec.list_makers import device_lists, server_lists
from murmurec.ratings import Ratings, columns_of, item_keys, user_keys
from producers.datasets.load import Dataset
from stream_app.evaluation import most_rated_items, ranking
from stream_app.evaluation.ranking import RankingResult, RankingRow, RankingTask, Way, baselines
from stream_app.evaluation.ranking.lists import Scorer
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.randomness import SeededSource


@dataclass(frozen=True)
class RankingOptions:
    """Options that are rarely changed.

    factors: components of a latent vector. depth, scope, user_bias: as in
    `murmurec.evaluation.Options`. like: the smallest rating that is a like; by default 7/10 up the
    scale, 4 of 1 .. 5.
    """

    factors: int = 32
    depth: int = 4
    scope: int | None = None
    user_bias: bool = False
    like: float | None = None


def evaluate_ranking(
    ratings: Ratings,
    mechanism: Mechanism | str | None = None,
    *,
    k: int = 10,
    split: str = "user-time",
    model: str = "hybrid",
    seed: int = 0,
    options: RankingOptions = RankingOptions(),
    progress: Progress = lambda done, total: None,  # noqa: ARG005 (a silent default)
) -> RankingResult:
    """Sanitize and learn the earlier ratings of each user, and compare the lists with later likes.

    Args:
        ratings, mechanism, model, seed: as for `murmurec.evaluate`.
        k: the length of a list.
        split: what is held out: `"user-time"` (each user's last fifth), `"last"` (each user's last
            rating) or `"global"` (the last fifth of all).
        progress: called with the work done and its total.

    Raises ValueError for arguments out of range, invalid ratings, or none to test with.
    """
    run = RankingEvaluation(
        columns_of(ratings, None),
        mechanism,
        k=k,
        split=split,
        model=model,
        seed=seed,
        options=options,
    )
    return run.measure(progress)


class RankingEvaluation:
    """A task of lists, the devices that sanitize what they rated before, and a new server.

    `task` is what is ranked for whom, `server` learns in `learning` or in `measure`. The
    constructor raises ValueError for an argument out of range or ratings that are too few.
    """

    def __init__(
        self,
        data: Dataset,
        mechanism: Mechanism | str | None,
        *,
        k: int,
        split: str,
        model: str,
        seed: int,
        options: RankingOptions,
    ) -> None:
        if not 0 <= seed < 2**63:
            raise ValueError(f"seed {seed}: give a number from 0 to 2^63-1")
        self._mechanism = mechanism_of(mechanism, data.scale)
        self._in_time = data.timestamps is not None
        data = data if self._in_time else shuffled(data, seed)
        users, items = user_keys(data.users), item_keys(data.items)
        liked = data.ratings >= least_like(options.like, data)
        self.task = ranking.ranking_task(users, items, data.ratings, liked, split, seed)
        rows = self.task.rows
        self._ratings = CleanRatings(users[rows], items[rows], data.levels[rows])
        values = data.scale.values
        self._stars = 1 + 4 * (data.ratings[rows] - values[0]) / (values[-1] - values[0])
        known, self._scope = len(self.task.items), 0
        if not 1 <= k <= known:
            raise ValueError(f"k {k}: {known} items can be ranked; give 1 to {known}")
        if self._mechanism.inputs > self._mechanism.levels:
            self._scope = scope_of(options.scope, known, self._mechanism, None)
        self._k, self._split, self._seed, self._options = k, split, seed, options
        sizes = sizes_of(len(self.task.users) + known, options.factors, options.depth, seed)
        self.server = LearnedServer(self._mechanism, model, sizes)

    def measure(self, progress: Progress) -> RankingResult:
        """Sanitize and learn the ratings, make lists in every way and return their figures; call it
        once."""
        task, total = self.task, len(self.task.rows)
        cells = len(task.users) * self._scope
        events = cells or total
        for done in self.learning():
            progress(done, 2 * events)
        steps, rows = self._ways(), []
        for number, step in enumerate(steps, 1):
            rows += [ranking.row_of(task, way) for way in step()]
            progress(events + events * number // len(steps), 2 * events)
        return self._result(tuple(rows), cells)

    def learning(self) -> Iterator[int]:
        """Sanitize and learn the ratings; yield how many, or how many cells, are done."""
        return self._over_scope() if self._scope else self._over_ratings()

    def device_row(self, *, in_order: bool) -> RankingRow:
        """Return the figures of the devices' lists, once `learning` is done.

        Raises ValueError where nothing was learned that a list could be made from.
        """
        if self.server.recommender.served is None:
            raise ValueError("too few ratings: there is nothing yet that lists are made from")
        (way,) = device_lists(self.server, self.task, self._stars, self._k, in_order)
        return ranking.row_of(self.task, way)

    def _over_ratings(self) -> Iterator[int]:
        source = SeededSource(self._seed)
        return self.server.rate(self._ratings, source, user_bias=self._options.user_bias)

    def _over_scope(self) -> Iterator[int]:
        """Let every device send one message over the most rated items, with what it has rated."""
        task, missing = self.task, self._mechanism.levels
        chosen = most_rated_items(self._ratings.items, self._scope)
        cells = np.full((len(task.users), self._scope), missing, np.uint8)
        inside = np.flatnonzero(np.isin(self._ratings.items, chosen))
        columns = np.searchsorted(chosen, self._ratings.items[inside])
        cells[task.learned.users[inside], columns] = self._ratings.levels[inside]
        order = np.random.default_rng(self._seed).permutation(len(task.users))
        source = SeededSource(self._seed)
        return self.server.send_cells(task.users[order], chosen, cells[order], source)

    def _ways(self) -> list[Callable[[], list[Way]]]:
        """Return the steps in which lists are made, the lists that are reported first in the first
        one."""
        task, k, stars = self.task, self._k, self._stars
        found: list[Callable[[], list[Way]]] = []
        if self.server.recommender.served is not None:
            orders = (True, False) if self._in_time else (False,)
            for in_order in orders:
                found.append(partial(device_lists, self.server, task, stars, k, in_order))
            # A message over the whole scope arrives in no order of ratings.
            for in_order in (False,) if self._scope else orders:
                found.append(partial(server_lists, self.server, task, k, in_order))
        scorers = {
            "popular": ("none", baselines.popular),
            "item means": ("none", baselines.item_means),
            "item-kNN": ("clean", baselines.item_neighbours),
            "EASE": ("clean likes", baselines.clean_ease),
        }
        for name, (history, scorer) in scorers.items():
            found.append(partial(self._baseline, name, history, scorer))
        found.append(partial(ranking.co_rated_lists, task, stars, k, in_order=self._in_time))
        return found

    def _baseline(
        self, name: str, history: str, scorer: Callable[[RankingTask], Scorer]
    ) -> list[Way]:
        lists = ranking.lists_of(self.task, scorer(self.task), self._k)
        return [Way(name, "baseline", history, lists)]

    def _result(self, rows: tuple[RankingRow, ...], cells: int) -> RankingResult:
        best, epsilon = asdict(rows[0]), self._mechanism.epsilon
        baseline = {row.method: row.ndcg for row in rows if row.where == "baseline"}
        return RankingResult(
            protocol="ranking",
            split=self._split,
            k=self._k,
            model=self.server.replica.learner.name,
            mechanism=self._mechanism.id,
            epsilon=None if epsilon is None else float(epsilon),
            **best,
            ndcg_popular=baseline["popular"],
            ndcg_item_means=baseline["item means"],
            ndcg_item_neighbours=baseline["item-kNN"],
            ndcg_clean_ease=baseline["EASE"],
            users=len(self.task.tested),
            items=len(self.task.items),
            learned=self.server.learned,
            scope=self._scope,
            cells=cells,
            in_time=self._in_time,
            serving=self.server.recommender.standing.method,
            rows=rows,
        )


def least_like(given: float | None, data: Dataset) -> float:
    """Return the smallest rating that is a like; ValueError for one off the scale."""
    values = data.scale.values
    if given is None:
        return float(values[-(-7 * (len(values) - 1) // 10)])
    if not values[0] <= given <= values[-1]:
        raise ValueError(f"like {given:g}: the ratings are on the scale {data.scale}")
    return given


def shuffled(data: Dataset, seed: int) -> Dataset:
    """Return the rows in a random order."""
    order = np.random.default_rng(seed).permutation(len(data))
    users, items = data.users[order], data.items[order]
    ratings, levels = data.ratings[order], data.levels[order]
    return replace(data, users=users, items=items, ratings=ratings, levels=levels)

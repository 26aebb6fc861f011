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

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

import numpy as np

from murmurec.evaluation import Progress, mechanism_of, scope_of, sizes_of
from murmurec.learned_server import CleanRatings, LearnedServer
from murmurec.ratings import Ratings, columns_of, item_keys, user_keys
from producers.datasets.load import Dataset
from stream_app.evaluation import most_rated_items, ranking
from stream_app.evaluation.ranking import RankingResult, RankingRow, Way, baselines
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
    model: str = "sketch",
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

    The constructor raises ValueError for an argument out of range or ratings that are too few.
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
        data = data if self._in_time else _shuffled(data, seed)
        users, items = user_keys(data.users), item_keys(data.items)
        liked = data.ratings >= _least_like(options.like, data)
        self._task = ranking.ranking_task(users, items, data.ratings, liked, split, seed)
        rows = self._task.rows
        self._ratings = CleanRatings(users[rows], items[rows], data.levels[rows])
        known, self._scope = len(self._task.items), 0
        if not 1 <= k <= known:
            raise ValueError(f"k {k}: {known} items can be ranked; give 1 to {known}")
        if self._mechanism.inputs > self._mechanism.levels:
            self._scope = scope_of(options.scope, known, self._mechanism, None)
        self._k, self._split, self._seed, self._options = k, split, seed, options
        sizes = sizes_of(len(self._task.users) + known, options.factors, options.depth, seed)
        self._server = LearnedServer(self._mechanism, model, sizes)

    def measure(self, progress: Progress) -> RankingResult:
        """Sanitize and learn the ratings, make lists in every way and return their figures; call it
        once."""
        task, total = self._task, len(self._task.rows)
        cells = len(task.users) * self._scope
        events = cells or total
        learning = self._over_scope() if self._scope else self._over_ratings()
        for done in learning:
            progress(done, 2 * events)
        ways = self._ways()
        rows = []
        for number, way in enumerate(ways, 1):
            rows.append(ranking.row_of(task, way, self._k))
            progress(events + events * number // len(ways), 2 * events)
        return self._result(tuple(rows), cells)

    def _over_ratings(self) -> Iterator[int]:
        source = SeededSource(self._seed)
        stops = np.empty(0, np.intp)
        user_bias = self._options.user_bias
        return self._server.rate(self._ratings, source, stops, user_bias=user_bias)

    def _over_scope(self) -> Iterator[int]:
        """Let every device send one message over the most rated items, with what it has rated."""
        task, missing = self._task, self._mechanism.levels
        chosen = most_rated_items(self._ratings.items, self._scope)
        cells = np.full((len(task.users), self._scope), missing, np.uint8)
        inside = np.flatnonzero(np.isin(self._ratings.items, chosen))
        columns = np.searchsorted(chosen, self._ratings.items[inside])
        cells[task.learned.users[inside], columns] = self._ratings.levels[inside]
        order = np.random.default_rng(self._seed).permutation(len(task.users))
        source = SeededSource(self._seed)
        return self._server.send_cells(task.users[order], chosen, cells[order], source)

    def _ways(self) -> list[Way]:
        """Return all ways to make lists, the one that is reported first."""
        task, learner = self._task, self._server.replica.learner
        return [
            Way("factors", "server", "reports", baselines.factors(task, learner)),
            Way("popular", "baseline", "none", baselines.popular(task)),
            Way("item means", "baseline", "none", baselines.item_means(task)),
            Way("item-kNN", "baseline", "clean", baselines.item_neighbours(task)),
            Way("EASE", "baseline", "clean likes", baselines.clean_ease(task)),
        ]

    def _result(self, rows: tuple[RankingRow, ...], cells: int) -> RankingResult:
        best, epsilon = asdict(rows[0]), self._mechanism.epsilon
        baseline = {row.method: row.ndcg for row in rows if row.where == "baseline"}
        return RankingResult(
            protocol="ranking",
            split=self._split,
            k=self._k,
            model=self._server.replica.learner.name,
            mechanism=self._mechanism.id,
            epsilon=None if epsilon is None else float(epsilon),
            **best,
            ndcg_popular=baseline["popular"],
            ndcg_item_means=baseline["item means"],
            ndcg_item_neighbours=baseline["item-kNN"],
            ndcg_clean_ease=baseline["EASE"],
            users=len(self._task.tested),
            items=len(self._task.items),
            learned=self._server.learned,
            scope=self._scope,
            cells=cells,
            in_time=self._in_time,
            rows=rows,
        )


def _least_like(given: float | None, data: Dataset) -> float:
    """Return the smallest rating that is a like; ValueError for one off the scale."""
    values = data.scale.values
    if given is None:
        return float(values[-(-7 * (len(values) - 1) // 10)])
    if not values[0] <= given <= values[-1]:
        raise ValueError(f"like {given:g}: the ratings are on the scale {data.scale}")
    return given


def _shuffled(data: Dataset, seed: int) -> Dataset:
    """Return the rows in a random order."""
    order = np.random.default_rng(seed).permutation(len(data))
    users, items = data.users[order], data.items[order]
    ratings, levels = data.ratings[order], data.levels[order]
    return replace(data, users=users, items=items, ratings=ratings, levels=levels)

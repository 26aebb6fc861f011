"""Quality of the lists of a deployment that learns sanitized ratings.

>>> from murmurec import evaluate_ranking
>>> users = [user for user in range(60) for _ in range(12)]
>>> items = [(user % 3 + 3 * k + user) % 40 for user in range(60) for k in range(12)]
>>> ratings = [1 + (user + item) % 5 for user, item in zip(users, items)]
>>> options = RankingOptions(messages=("packed",))
>>> data = users, items, ratings, range(720)
>>> result = evaluate_ranking(data, "rr:5:2", options=options)
>>> result.split, result.k, result.mechanism
('user-time', 10, 'rr:5:2')
>>> row = result.row(method="next", where="device", messages="packed")
>>> 0 <= row.ndcg <= 1
True

The reports pass through a worker's own state (`LearnedServer`) in messages as devices send them;
the noise comes from a seed, so that a figure can be repeated; nothing is sent. The lists of devices
are of what is liked `next`, at a later visit, or `now`; those of cold users know the newest ratings
alone. `stream_app.evaluation.ranking` says what is held out and what is counted. Data without times
are put in a random order by the seed.

    device    the device's own clean history, ranked by the item side as it is published
    server    the reply to the device's query, without what its user has rated

A device of which only the newest ratings are known is one that has rated nothing else; all that its
user has rated stays out of the list, as of every other one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from murmurec.common import Progress, progress_lines
from murmurec.learned_server import CleanRatings, LearnedServer
from murmurec.learner_evaluation import mechanism_of, scope_of, sizes_of
from murmurec.ratings import Ratings, columns_of, item_keys, user_keys
from producers.datasets.load import Dataset, is_timed
from producers.ranking.ranker import Ranker, Rated
from stream_app.evaluation import most_rated_items, ranking
from stream_app.evaluation.ranking import RankingResult, RankingRow, RankingTask, Way, baselines
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.randomness import SeededSource
from stream_app.ranking.compact_side import decode_side, encode_side
from stream_app.wire import EPOCH_SECONDS, LIST_LENGTH

_LAST_DAY = 2**32 - 1  # of an event
COLD = (10, 3, 1, 0)  # newest ratings of which a device makes a list
_BASELINES = (
    ("popular", "none", baselines.popular),
    ("recent popular", "none", baselines.recently_popular),
    ("EASE", "true ratings", baselines.ease),
)


@dataclass(frozen=True)
class RankingOptions:
    """Options that are rarely changed.

    factors: components of a latent vector. depth, scope, user_bias: as in
    `murmurec.evaluation.Options`. like: the smallest rating that is a like; by default 7/10 up the
    scale, 4 of 1 .. 5. messages: the forms in which ratings are sent, of "single", "daily" and
    "packed"; where presence is protected each device sends one message over the scope.
    """

    factors: int = 32
    depth: int = 4
    scope: int | None = None
    user_bias: bool = False
    like: float | None = None
    messages: tuple[str, ...] = ranking.FORMS


def evaluate_ranking(
    ratings: Ratings,
    mechanism: Mechanism | str | None = None,
    *,
    k: int = 10,
    split: str = "user-time",
    model: str = "hybrid",
    seed: int = 0,
    options: RankingOptions = RankingOptions(),
    progress: Progress | None = None,
) -> RankingResult:
    """Sanitize and learn the earlier ratings of each user, and compare the lists with later likes.

    Args:
        ratings, mechanism, seed: as for `murmurec.evaluate`. model: `"hybrid"` or `"sketch"`.
        k: the length of a list.
        split: what is held out: `"global"` (the last fifth of all), `"visit"` (each user's last
            day), `"user-time"` (each user's last fifth) or `"last"` (each user's last rating).
        progress: called with the work done and its total; by default a line every ten seconds.

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
    return run.measure(progress or progress_lines("learning and ranking"))


class RankingEvaluation:
    """A task of lists, the devices that sanitize what they rated before, and a new server.

    `task` is what is ranked for whom, `server` learns in `learning`; `measure` takes a new one for
    each form of messages. The constructor raises ValueError for an argument out of range or ratings
    that are too few.
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
        for form in options.messages:
            if form not in ranking.FORMS:
                raise ValueError(f"messages {form}: choose {', '.join(ranking.FORMS)}")
        self._mechanism = mechanism_of(mechanism, data.scale)
        self._in_time = is_timed(data.timestamps)
        data = data if self._in_time else shuffled(data, seed)
        users, items, days = user_keys(data.users), item_keys(data.items), days_of(data)
        liked = data.ratings >= least_like(options.like, data)
        self.task = ranking.ranking_task(users, items, data.ratings, liked, split, seed, days)
        rows = self.task.rows
        sent = np.zeros(len(rows), np.int64) if days is None else days[rows]
        self._ratings = CleanRatings(users[rows], items[rows], data.levels[rows], sent)
        stars = 1 + 4 * data.levels[rows] / (data.scale.levels - 1)
        times = None if not self._in_time or data.timestamps is None else data.timestamps[rows]
        self._own = own_histories(self.task, stars, times)
        known, self._scope = len(self.task.items), 0
        if not 1 <= k <= known:
            raise ValueError(f"k {k}: {known} items can be ranked; give 1 to {known}")
        if self._mechanism.inputs > self._mechanism.levels:
            self._scope = scope_of(options.scope, known, self._mechanism, None)
        self._k, self._split, self._seed, self._options = k, split, seed, options
        sizes = sizes_of(len(self.task.users) + known, options.factors, options.depth, seed)
        self._new_server = partial(LearnedServer, self._mechanism, model, sizes)
        self.server = self._new_server()

    def measure(self, progress: Progress) -> RankingResult:
        """Sanitize and learn the ratings in every form of messages, make lists in every way and
        return their figures."""
        forms = ("",) if self._scope else self._options.messages
        events = len(self.task.users) * self._scope or len(self.task.rows)
        done, total = 0, events * (1 + 2 * len(forms))

        def advance(part: float) -> None:
            progress(done + int(events * part), total)

        ways = []
        for place, (name, history, scorer) in enumerate(_BASELINES, 1):
            lists = ranking.lists_of(self.task, scorer(self.task), self._k)
            ways.append(Way(name, "baseline", history, lists))
            advance(place / len(_BASELINES))
        popular, made = ranking.user_gains(self.task, ways[0].lists), []
        for form in forms:
            done, self.server = done + events, self._new_server()
            for learned in self.learning(form):
                advance(learned / events)
            done += events
            steps = self._ways(form)
            for place, step in enumerate(steps, 1):
                made.append(step())
                advance(place / len(steps))
        rows = [
            ranking.row_of(self.task, way, popular if way is not ways[0] else None)
            for way in (*made, *ways)
        ]
        return self._result(tuple(rows))

    def learning(self, form: str = "single") -> Iterator[int]:
        """Sanitize and learn the ratings in messages of this form; yield how many, or how many
        cells of a scope, are done."""
        return self._over_scope() if self._scope else self._over_ratings(form)

    def device_row(self, *, now: bool = False) -> RankingRow:
        """Return the figures of the devices' lists, once `learning` is done.

        Raises ValueError where nothing was learned that a list could be made from.
        """
        if self.server.recommender.served is None:
            raise ValueError("too few ratings: there is nothing yet that lists are made from")
        return ranking.row_of(self.task, self._on_devices("", now=now))

    def server_row(self) -> RankingRow:
        """Return the figures of the server's lists, once `learning` is done."""
        return ranking.row_of(self.task, self._on_server(""))

    def _over_ratings(self, form: str) -> Iterator[int]:
        source = SeededSource(self._seed)
        return self.server.rate(self._ratings, source, form, user_bias=self._options.user_bias)

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

    def _ways(self, form: str) -> list[Callable[[], Way]]:
        """Return the steps in which lists are made, that of the first row first."""
        found: list[Callable[[], Way]] = []
        if self.server.recommender.served is not None:
            found = [partial(self._on_devices, form, most=most) for most in (None, *COLD)]
            if self._in_time:
                found.insert(1, partial(self._on_devices, form, now=True))
                found.append(partial(self._on_server, form, now=True))
        return [*found, partial(self._on_server, form)]

    def _on_devices(self, form: str, *, now: bool = False, most: int | None = None) -> Way:
        lists = device_lists(self.server, self.task, self._own, self._k, now=now, most=most)
        history = "clean" if most is None else f"clean, {most} rating{'s' * (most != 1)}"
        return Way("now" if now else "next", "device", history, lists, form)

    def _on_server(self, form: str, *, now: bool = False) -> Way:
        method, lists = server_lists(self.server, self.task, self._k, now=now)
        return Way("now" if now else "next", "server", f"reports, {method}", lists, form)

    def _result(self, rows: tuple[RankingRow, ...]) -> RankingResult:
        epsilon = self._mechanism.epsilon
        return RankingResult(
            split=self._split,
            k=self._k,
            model=self.server.replica.learner.name,
            mechanism=self._mechanism.id,
            epsilon=None if epsilon is None else float(epsilon),
            users=len(self.task.tested),
            items=len(self.task.items),
            learned=self.server.learned,
            scope=self._scope,
            cells=len(self.task.users) * self._scope,
            in_time=self._in_time,
            rows=rows,
        )


def days_of(data: Dataset) -> NDArray[np.int64] | None:
    """Return the days since 1970 of the ratings (n,); None where their order says nothing."""
    if data.timestamps is None or not is_timed(data.timestamps):
        return None
    return np.clip(data.timestamps // EPOCH_SECONDS, 0, _LAST_DAY)


def least_like(given: float | None, data: Dataset) -> float:
    """Return the smallest rating that is a like; ValueError for one off the scale."""
    scale = data.scale
    if given is None:
        lowest = -(-7 * (scale.levels - 1) // 10)
        return float(scale.values[lowest]) - (scale.step / 2 if scale.binned else 0)
    if not scale.minimum <= given <= scale.maximum:
        raise ValueError(f"like {given:g}: the ratings are on the scale {scale}")
    return given


def shuffled(data: Dataset, seed: int) -> Dataset:
    """Return the rows in a random order."""
    order = np.random.default_rng(seed).permutation(len(data))
    users, items = data.users[order], data.items[order]
    ratings, levels = data.ratings[order], data.levels[order]
    return replace(data, users=users, items=items, ratings=ratings, levels=levels)


Lists = NDArray[np.intp]


def own_histories(
    task: RankingTask, stars: NDArray[np.float64], times: NDArray[np.int64] | None
) -> list[Rated]:
    """Return what the device of each tested user holds; stars (n,) of the learned ratings on 1 ..
    5, times (n,) in seconds, None where the order says nothing."""
    histories = []
    for rows in task.learned_rows():
        items = task.items[task.learned.items[rows]]
        own = Rated.untimed(items.tolist(), stars[rows].tolist())
        if times is not None:
            own = own._replace(days=times[rows] // EPOCH_SECONDS, places=times[rows])
        histories.append(own)
    return histories


def device_lists(
    server: LearnedServer,
    task: RankingTask,
    histories: list[Rated],
    k: int,
    *,
    now: bool = False,
    most: int | None = None,
) -> Lists:
    """Return the lists (t, k) that devices make of what is liked next, at a later visit or `now`;
    `most`: ratings, the newest, that they know."""
    served = server.recommender.served
    assert served is not None
    ranker = Ranker(decode_side(encode_side(served.side)))
    lists = np.full((len(histories), k), -1, np.intp)
    for place, whole in enumerate(histories):
        first = 0 if most is None else max(len(whole.items) - most, 0)
        own = Rated._make(column[first:] for column in whole)
        found = ranker.rank(own, k, now=now, excluded=whole.items)
        keys = np.array([each.item for each in found], np.uint64)
        lists[place, : len(keys)] = np.searchsorted(task.items, keys)
    return lists


def server_lists(
    server: LearnedServer, task: RankingTask, k: int, *, now: bool = False
) -> tuple[str, Lists]:
    """Return the lists (t, k) of the server's replies, and the method that made most of them."""
    lists, methods = np.full((len(task.tested), k), -1, np.intp), Counter[str]()
    for place, user in enumerate(task.users[task.tested].tolist()):
        device = np.array([user, 0], "<u8").tobytes()
        reply = server.recommender.answer(device, LIST_LENGTH, now=now)
        found = np.searchsorted(task.items, reply.items)
        found = found[~np.isin(found, task.history.of_user(place)[0])][:k]
        lists[place, : len(found)] = found
        methods[reply.method] += 1
    return methods.most_common(1)[0][0], lists

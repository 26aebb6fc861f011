"""One pass where presence is protected: every user sends every cell of a public scope, once.

    cells      users x scope; a cell holds the rating if it is among the learned 80 %, else nothing
    devices    in random order, one record each, the cells in random order
    learner    published cells alone; the others update presence rates alone (`presence_rates.py`)
    test       the true ratings of the last 10 % that lie in the scope

Likes have no ratings to test. Each cell holds the bit b = "rated and at least L"; P(b = 1) is
predicted within the bounds of the learner's decoder, then the report is learned:

    log-loss   mean of -b ln P - (1 - b) ln(1 - P) in nats, over all cells
    baseline   the same of the item's share of true likes among the devices before, a little
               shrunken towards the overall share

`rmse` and `mae` are then those of P against the bit, 0 to 1, and not of stars.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from stream_app.evaluation.results import EvaluationData, EvaluationResult, item_means, rms, split
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.learner import Learner
from stream_app.models.factorization.presence_rates import PresenceRates, learn_from
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.randomness import RandomSource
from stream_app.privacy.ratings.like import LIKED, Like


class ScopeDevices(NamedTuple):
    """Levels (n,) of the true ratings, the mechanism that hides them, and the size of the scope."""

    levels: NDArray[np.uint8]
    mechanism: Mechanism
    source: RandomSource
    scope: int = 300


def evaluate_scope(
    data: EvaluationData,
    devices: ScopeDevices,
    learner: Learner,
    presence: PresenceRates,
    *,
    seed: int = 0,
    progress: Callable[[int], None] = lambda events: None,  # noqa: ARG005 (a silent default)
) -> EvaluationResult:
    """Return the errors of a fresh `learner`; the devices' mechanism is its channel 0.

    `progress` is called with the number of cells just completed; there are users times
    `scope`.
    """
    (users, items, truth), (levels, mechanism, source, scope) = data, devices
    if mechanism.inputs == mechanism.levels:
        raise ValueError(f"{mechanism.id}: presence is public; evaluate its ratings one by one")
    chosen = most_rated_items(items, scope)
    rows = np.flatnonzero(np.isin(items, chosen))
    people = np.unique(users)
    if isinstance(mechanism, Like):
        rated = users[rows], items[rows], levels[rows]
        cells = ScopeCells.holding(people, chosen, rated, mechanism.levels)
        return evaluate_likes(cells, mechanism, source, learner, seed=seed, progress=progress)
    parts = (part[np.isin(part, rows)] for part in split(len(users), seed))
    learned, _, tested = parts
    if not len(learned) or not len(tested):
        raise ValueError(f"scope {scope}: too few ratings in it to learn and to test")
    rated = users[learned], items[learned], levels[learned]
    cells = ScopeCells.holding(people, chosen, rated, mechanism.levels)
    seconds, published = 0.0, 0
    learner.predict_many(users[:1], items[:1])  # compiles the kernels before timing
    for batch in cells.sent(mechanism, source, seed):
        began = time.process_time()
        published += learn_cells(learner, presence, mechanism.alphabet - 1, batch)
        seconds += time.process_time() - began
        progress(len(batch[1]))
    errors = truth.errors(learner.predict_many(users[tested], items[tested]), tested)
    ratings = truth.ratings
    baseline = item_means(items[learned], ratings[learned], items[tested]) - ratings[tested]
    return EvaluationResult(
        protocol="scope",
        model=learner.name,
        mechanism=mechanism.id,
        epsilon=None if mechanism.epsilon is None else float(mechanism.epsilon),
        events=len(tested),
        rmse=rms(errors),
        mae=float(np.abs(errors).mean()),
        rmse_baseline=rms(baseline),
        events_per_second=cells.levels.size / max(seconds, 1e-9),
        learned=published,
        scope=scope,
        cells=cells.levels.size,
    )


def learn_cells(learner: Learner, presence: PresenceRates, missing: int, batch: Batch) -> int:
    """Learn whole records, (counts, users, items, reports); return how many were published."""
    counts, users, items, reports = batch
    channels, published = np.zeros(len(users), np.uint16), reports != missing
    priors = presence.priors(counts, users, items, reports, channels)
    many = int(published.sum())
    before = np.concatenate(([0], np.cumsum(published)))  # published cells before each cell
    starts = [start._replace(cell=int(before[start.cell])) for start in presence.starts]
    columns = users[published], items[published], reports[published], channels[published]
    learn_from(learner, starts, (*columns, np.ones(many, np.bool_), priors[published]))
    return many


_BATCH = 8192

Batch = tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint8]]


def most_rated_items(items: NDArray[np.uint64], count: int) -> NDArray[np.uint64]:
    """Return the `count` most rated items, by key; ties go to the smaller key."""
    keys, counts = np.unique(items, return_counts=True)
    if not 1 <= count <= len(keys):
        raise ValueError(f"scope {count}: the data have 1 to {len(keys)} items")
    return np.sort(keys[np.argsort(-counts, kind="stable")[:count]])


class ScopeCells(NamedTuple):
    """Keys of people (p,) and of the scope (s,), sorted; levels (p, s) uint8 of their ratings.

    A cell without a rating holds the number of levels.
    """

    people: NDArray[np.uint64]
    scope: NDArray[np.uint64]
    levels: NDArray[np.uint8]

    @classmethod
    def holding(
        cls,
        people: NDArray[np.uint64],
        scope: NDArray[np.uint64],
        ratings: tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint8]],
        missing: int,
    ) -> Self:
        """Return the cells with these ratings, users, items and levels (n,), all in the scope."""
        users, items, levels = ratings
        cells = np.full((len(people), len(scope)), missing, np.uint8)
        cells[np.searchsorted(people, users), np.searchsorted(scope, items)] = levels
        return cls(people, scope, cells)

    def sent(self, mechanism: Mechanism, source: RandomSource, seed: int) -> Iterator[Batch]:
        """Yield batches of reports: counts, users, items and reports of whole scopes."""
        random = np.random.default_rng(seed)
        order, width = random.permutation(len(self.people)), len(self.scope)
        some = max(1, _BATCH // width)
        for first in range(0, len(self.people), some):
            rows = order[first : first + some]
            places = random.permuted(np.tile(np.arange(width), (len(rows), 1)), axis=1)
            inputs = np.take_along_axis(self.levels[rows], places, 1).reshape(-1)
            yield (
                np.full(len(rows), width, np.int64),
                np.repeat(self.people[rows], width),
                self.scope[places].reshape(-1),
                mechanism.release(inputs, source),
            )


_SHRINK = 20.0
_FIRST_SHARE = 0.1

Floats = NDArray[np.float64]


def log_losses(probability: Floats, bits: NDArray[np.bool_]) -> Floats:
    """Return -ln of the probability of each bit, in nats."""
    return -np.log(np.where(bits, probability, 1 - probability))


class _Scores(NamedTuple):
    """Sums over the cells of a batch: log-losses and squared errors of model and baseline."""

    loss: float
    baseline_loss: float
    square: float
    baseline_square: float
    absolute: float


def evaluate_likes(
    cells: ScopeCells,
    mechanism: Like,
    source: RandomSource,
    learner: Learner,
    *,
    seed: int = 0,
    progress: Callable[[int], None] = lambda events: None,  # noqa: ARG005 (a silent default)
) -> EvaluationResult:
    """Return the errors of a fresh `learner`, whose channel 0 is `mechanism`."""
    bits = (cells.levels >= mechanism.threshold) & (cells.levels < mechanism.levels)
    running = _ItemShares(len(cells.scope))
    scores, liked, seconds = [], 0, 0.0
    learner.predict_many(cells.people[:1], cells.scope[:1])  # compiles the kernels before timing
    for _, users, items, reports in cells.sent(mechanism, source, seed):
        channels, learned = np.zeros(len(users), np.uint16), np.ones(len(users), np.bool_)
        began = time.process_time()
        update = learner.learn_many(users, items, reports, channels, learned)
        seconds += time.process_time() - began
        liked += int((reports == LIKED).sum())
        places = np.searchsorted(cells.scope, items)
        truth = bits[np.searchsorted(cells.people, users), places]
        scores.append(
            _scored(Channels.like_probability(update.predicted), running.shares(places), truth)
        )
        running.add(places, truth)
        progress(len(users))
    mean = _Scores(*(np.array(scores).sum(0) / bits.size).tolist())
    return EvaluationResult(
        protocol="scope",
        model=learner.name,
        mechanism=mechanism.id,
        epsilon=float(mechanism.epsilon),
        events=bits.size,
        rmse=mean.square**0.5,
        mae=mean.absolute,
        rmse_baseline=mean.baseline_square**0.5,
        events_per_second=bits.size / max(seconds, 1e-9),
        learned=bits.size,
        scope=len(cells.scope),
        cells=bits.size,
        log_loss=mean.loss,
        log_loss_baseline=mean.baseline_loss,
        likes_reported=liked,
    )


def _scored(probability: Floats, share: Floats, truth: NDArray[np.bool_]) -> _Scores:
    """Return the sums of a batch."""
    error, other = probability - truth, share - truth
    return _Scores(
        float(log_losses(probability, truth).sum()),
        float(log_losses(share, truth).sum()),
        float((error**2).sum()),
        float((other**2).sum()),
        float(np.abs(error).sum()),
    )


class _ItemShares:
    """Running shares of true likes by item, shrunken towards the overall share."""

    def __init__(self, items: int) -> None:
        self._likes, self._cells = np.zeros((2, items))

    def shares(self, places: NDArray[np.int64]) -> Floats:
        """Return the share of each cell's item, strictly between 0 and 1."""
        total = self._likes.sum() + _SHRINK * _FIRST_SHARE
        overall = total / (self._cells.sum() + _SHRINK)
        shares = (self._likes + _SHRINK * overall) / (self._cells + _SHRINK)
        return np.asarray(shares[places])

    def add(self, places: NDArray[np.int64], truth: NDArray[np.bool_]) -> None:
        """Count the cells of a batch."""
        np.add.at(self._likes, places, truth)
        np.add.at(self._cells, places, 1.0)

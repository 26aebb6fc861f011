"""Log-loss of the liked bit where devices report likes: every cell of a public scope, once.

    cells      users x scope, each with the bit b = "rated and at least L" of its true rating
    devices    in random order, one record each, the cells in random order
    test       every cell is predicted before its report is learned: P(b = 1) of the learner, within
               its decoder's bounds
    log-loss   mean of -b ln P - (1 - b) ln(1 - P) in nats, over all cells
    baseline   the same of the item's share of true likes among the devices before, a little
               shrunken towards the overall share

The errors in `rmse` and `mae` are those of P against the bit, 0 to 1, and not of stars.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.evaluation.results import EvaluationResult
from stream_app.evaluation.scope_cells import ScopeCells
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.learner import Learner
from stream_app.privacy.randomness import RandomSource
from stream_app.privacy.ratings.like import LIKED, Like

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

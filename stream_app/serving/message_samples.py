"""Prequential quality of lists where presence is protected: one half of a message from the other.

    history   half of the cells that a message reports, chosen by a keyed hash, debiased
    values    y_i = (bit_i - q) / (p - q) of the other half: E[y_i] = 1 where the item is positive,
              0 where it is not
    gain      sum over the list of y_i / log2(rank_i + 1), a list of items of the other half

p, q: P(positive | positive), P(positive | not positive). The noises of two cells are independent,
so the gain of a list that is made from one half is unbiased by the noise of the other. The list
knows half of what a list that is served knows, so the measured nDCG is rather too low. A message
is scored with the item side from before it; the hit rate cannot be debiased and stays unknown.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.models.cooccurrence.like_weights import report_weights
from stream_app.ranking.online_choice import OnlineChoice
from stream_app.serving.recommender import Recommender
from stream_app.serving.served_side import ServedSide
from stream_app.state.outcome import BatchOutcome
from stream_app.wire import Batch

LEAST_CELLS = 20  # a shorter message has no half from which a list can be made
_HALVES = np.uint64(0xA0761D6478BD642F)


class MessageSample(NamedTuple):
    """A message in two halves: slots and debiased values of each, and the learner's vector (d,) and
    bias of the user from before."""

    served: ServedSide
    history: tuple[NDArray[np.intp], NDArray[np.float32]]
    targets: tuple[NDArray[np.intp], NDArray[np.float32]]
    vector: NDArray[np.float32]
    bias: float

    def score(self, choice: OnlineChoice) -> None:
        """Score the lists of every method on the half that they do not know."""
        components = self.served.components_of_reports(*self.history, self.vector, self.bias)
        slots, values = self.targets
        allowed = np.zeros(len(self.served.side), np.bool_)
        allowed[slots] = True
        every = np.zeros(len(allowed), np.float64)
        every[slots] = values
        choice.observe_values(every, components, allowed)


class PendingMessage(NamedTuple):
    """A sample whose record, the `record`th of its batch, is not applied yet."""

    record: int
    sample: MessageSample


def before(
    recommender: Recommender, served: ServedSide, batch: Batch, most: int
) -> list[PendingMessage]:
    """Return at most `most` samples of a batch that is not applied yet, evenly spread over it."""
    protected = recommender.replica.pairs.reported_mechanism
    fit = (batch.mechanisms == protected) & (batch.counts >= LEAST_CELLS) & (batch.reasons == 0)
    records = np.flatnonzero(fit)
    if len(records) > most:
        records = records[np.arange(most) * len(records) // most]
    starts = np.cumsum(batch.counts) - batch.counts
    found = []
    for record in records.tolist():
        cells = slice(int(starts[record]), int(starts[record] + batch.counts[record]))
        sample = _sample(recommender, served, batch, record, cells)
        if sample is not None:
            found.append(PendingMessage(record, sample))
    return found


def after(pending: list[PendingMessage], outcome: BatchOutcome) -> list[MessageSample]:
    """Return the samples whose record was applied: a duplicate is known to the item side."""
    return [sample for record, sample in pending if outcome.applied[record]]


def _sample(
    recommender: Recommender, served: ServedSide, batch: Batch, record: int, cells: slice
) -> MessageSample | None:
    items, reports = batch.items[cells], batch.reports[cells]
    slots, known = served.slots_of(items)
    values = served.debiased(_bits(recommender, batch, record, reports))
    second = (items * _HALVES) >> np.uint64(63) == 1
    halves = [(slots[half & known], values[half & known]) for half in (~second, second)]
    if min(len(chosen) for chosen, _ in halves) < LEAST_CELLS // 4:
        return None
    user = batch.devices[record, :1]
    vectors, biases = recommender.replica.learner.users(user.copy())
    return MessageSample(served, halves[0], halves[1], vectors[0], float(biases[0]))


def _bits(
    recommender: Recommender, batch: Batch, record: int, reports: NDArray[np.uint8]
) -> NDArray[np.bool_]:
    """Return which reports of a record are positive."""
    channels = recommender.replica.channels
    number = channels.numbers(batch.mechanisms[record : record + 1])
    rows = channels.rows(np.repeat(number, len(reports)), reports)
    positive: NDArray[np.bool_] = report_weights(channels)[rows, 0] > 0
    return positive

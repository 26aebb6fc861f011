"""Prior probability of each cell to hold a rating, before its report is read.

Where presence is protected every cell of a public scope is sent, the ones without a rating too, and
many reports are fakes. The posterior of a report depends on how often the item is rated and how
active the user is; both are learned from the reports themselves, debiased through the exact
channel (`kernels/factorization/presence_updates.py` has the equations). Reports of mechanisms with
different epsilons and shares count by their information.

The memory is fixed: entities that find no free slot share one, which then holds the rate of all of
them together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.factorization.erase import forget_sums
from stream_app.kernels.factorization.presence_updates import (
    MOST_STARTS,
    PAIRED,
    count_and_estimate,
)
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.learner import Learner, UpdateResult
from stream_app.models.paged_arrays import FixedArrays, mark_dirty
from stream_app.models.seeds import ITEMS, USERS, derive_seed

TYPICAL_RATE = 0.1  # the rate at which the information of a report is taken
SLOT_BYTES = 28


class Start(NamedTuple):
    """A mean rating from debiased reports, on 1 .. 5, to be known before `cell` is learned."""

    cell: int  # place among the cells of the batch
    mean: float
    variance: float


class PresenceRates(FixedArrays):
    """Rates of users and items in `size_bytes`; the state is a function of the records in order."""

    def __init__(self, channels: Channels, size_bytes: int, seed: int = 1) -> None:
        slots = size_bytes // SLOT_BYTES // 4 * 4
        if not 4 <= slots < 2**32:
            raise ValueError(f"presence_bytes {size_bytes}: must be {4 * SLOT_BYTES} .. 2^36")
        super().__init__()
        self._tags = self.keep("tags", np.zeros(slots, np.uint32))
        self._sums = self.keep("sums", np.zeros((slots, 3)))
        self._overall = self.keep("overall", np.zeros(PAIRED + 1))
        self.starts: list[Start] = []
        self._pages = self.maps()
        self._seeds = np.array([derive_seed(seed, USERS), derive_seed(seed, ITEMS)], np.uint64)
        self.follow(channels)

    def follow(self, channels: Channels) -> None:
        """Count by these channels, the first of which are the former ones, from now on."""
        self._starts, self._weight = channels.starts, channels.weight
        self._value = np.nan_to_num(channels.value)  # NaN belongs to channels that are not counted
        self._information = report_information(channels)

    def priors(
        self,
        counts: NDArray[np.int64],
        users: NDArray[np.uint64],
        items: NDArray[np.uint64],
        reports: NDArray[np.uint8],
        channels: NDArray[np.uint16],
    ) -> NDArray[np.float32]:
        """Count records of `counts` (n,) cells each, and return the prior of each cell (m,).

        All cells of a record are of one user and one channel, its missing ones included. `starts`
        then holds where the mean rating has become surer, in the order of the cells.
        """
        priors = np.empty(len(users), np.float32)
        found = np.empty((MOST_STARTS, 3))
        mark_dirty(self._pages[2], 0, self._overall.nbytes)
        many = count_and_estimate(
            self._tags, self._sums, self._overall, *self._pages[:2], self._seeds, self._starts,
            self._information, self._weight, self._value,
            counts, users, items, reports, channels, priors, found,
        )  # fmt: skip
        self.starts = [Start(int(cell), mean, s2) for cell, mean, s2 in found[:many].tolist()]
        return priors

    @property
    def rate(self) -> float:
        """The estimated share of cells that hold a rating; NaN before the first report."""
        rated, weight = self._overall[:2]
        return float(rated / weight) if weight else float("nan")

    def forget(self, user: np.uint64) -> None:
        """Clear the sums of a user with a slot of its own.

        The contributions of the user's reports to the sums of items and to the overall rate remain,
        and so does a shared slot.
        """
        forget_sums(self._tags, self._sums, self._pages[1], user, self._seeds[0])


def learn_from(
    learner: Learner, starts: Sequence[Start], columns: Sequence[NDArray[Any]]
) -> UpdateResult:
    """Learn the columns of a batch in order, with the learner set to each start at its cell."""
    parts, begin = [], 0
    for start in starts:
        parts.append(learner.learn_many(*(column[begin : start.cell] for column in columns)))
        learner.start_mean(start.mean, start.variance)
        begin = start.cell
    parts.append(learner.learn_many(*(column[begin:] for column in columns)))
    if len(parts) == 1:
        return parts[0]
    return UpdateResult._make(np.concatenate(same) for same in zip(*parts, strict=True))


def report_information(channels: Channels) -> NDArray[np.float64]:
    """Return for each channel 1 / Var[weight(z)] at a typical rate; 0 where no prior is needed.

    That is where presence is public, and where the report is a bit of every cell (`likes`).

    It decides the state, so it is summed without rounding: numpy's dot product has other last bits
    on another processor.
    """
    found = np.zeros(len(channels))
    for c in np.flatnonzero(channels.presence & ~channels.likes):
        start, levels = channels.starts[c], channels.levels[c]
        spread = []
        for row in range(start, start + channels.alphabets[c]):
            rated = math.fsum(channels.likelihood[row, :levels].tolist()) / int(levels)
            probability = TYPICAL_RATE * rated + (1 - TYPICAL_RATE) * float(channels.absent[row])
            off = float(channels.weight[row]) - TYPICAL_RATE
            spread.append(probability * off * off)
        found[c] = 1 / math.fsum(spread)
    return found

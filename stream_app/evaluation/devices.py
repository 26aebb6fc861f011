"""The devices of an evaluation: they hold the true ratings and report them to the learner.

    FixedReports       reports that were released beforehand
    AdaptiveDevices    each rating is reported under a partition of the levels. The device chooses
                       the partition by the public item table and, with `user_bias`, by a bias
                       estimated from the user's own released reports

The item table has mean + b_i of the learner. It is published after 500 ratings, whenever they have
doubled, and from 100,000 on every 100,000. An item that it lacks has the average mean of the table;
before the first table, 3.5.

The choice of a partition has no argument for the rating itself
(`stream_app.privacy.ratings.partition_choice`).

Ratings are sent in messages of one of three forms; a message of several ratings holds them in the
order of the item keys, which hides the order in which the user rated:

    single    one rating a message, on the day of the rating
    daily     one message a user and day
    packed    rows of a stream in chunks, a message for each user of a chunk, all on one day: what
              a replay of a file sends (`producers/fleet/replay.py`)
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.learner import Learner
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.randomness import RandomSource
from stream_app.privacy.ratings.partition_choice import USER_BIASES, PartitionSelector, user_biases

FIRST_TABLE, TABLE_RATINGS = 500, 100_000
UNKNOWN_MEAN = 3.5

Reports = tuple[NDArray[np.uint8], NDArray[np.uint16]]


class Devices(Protocol):
    """A source of reports; the learner is the public knowledge at that moment."""

    def report(self, rows: NDArray[np.int64], learner: Learner) -> Reports:
        """Return the reports and channel numbers of some rows; each row is requested once."""


class FixedReports:
    """Reports (n,) of one channel, number 0."""

    def __init__(self, reports: NDArray[np.uint8]) -> None:
        self._reports = reports

    def __len__(self) -> int:
        return len(self._reports)

    def report(self, rows: NDArray[np.int64], learner: Learner) -> Reports:  # noqa: ARG002
        """Return the reports of some rows."""
        return self._reports[rows], np.zeros(len(rows), np.uint16)


class AdaptiveDevices:
    """Ratings (n,) of users and items; `mechanism` has masks and is number 0 of `channels`."""

    def __init__(
        self,
        mechanism: Mechanism,
        channels: Channels,
        users: NDArray[np.uint64],
        items: NDArray[np.uint64],
        levels: NDArray[np.uint8],
        source: RandomSource,
        *,
        user_bias: bool = False,
    ) -> None:
        self._mechanism, self._channels, self._source = mechanism, channels, source
        self._levels, self._user_bias = levels, user_bias
        self._choice = PartitionSelector(mechanism.levels, mechanism.epsilon or Fraction(64))
        known, self._users = np.unique(users, return_inverse=True)
        self._keys, self._items = np.unique(items, return_inverse=True)
        self._means = np.full(len(self._keys), UNKNOWN_MEAN)
        self._met = np.zeros(len(self._keys), np.bool_)
        self._evidence = np.zeros((len(known), len(USER_BIASES)))
        self._reported, self._due = 0, FIRST_TABLE

    def __len__(self) -> int:
        return len(self._levels)

    def report(self, rows: NDArray[np.int64], learner: Learner) -> Reports:
        """Choose a mask for each of some rows, and report the group of its rating."""
        if self._reported >= self._due:
            self._publish(learner)
        users, items = self._users[rows], self._items[rows]
        means = self._means[items]
        expected = means + user_biases(self._evidence)[users] if self._user_bias else means
        masks = self._choice.masks(expected)
        reports = self._mechanism.release(self._levels[rows], self._source, masks)
        if self._user_bias:
            np.add.at(self._evidence, users, self._choice.evidence(means, masks, reports))
        self._met[items] = True
        self._reported += len(rows)
        return reports, self._channels.numbers(np.zeros(len(rows), np.int64), masks)

    def _publish(self, learner: Learner) -> None:
        """Publish the item table: the learner's mean ratings of the items seen so far."""
        _, biases = learner.items(self._keys)
        means = np.clip(learner.mean + biases.astype(np.float64), 1.0, 5.0)
        self._means = np.where(self._met, means, means[self._met].mean())
        self._due = self._reported + min(self._reported, TABLE_RATINGS)


FORMS = ("single", "daily", "packed")


class Messages(NamedTuple):
    """The rows (m,) of the ratings in the order in which they are sent; of each message (n,) the
    number of its ratings and its day."""

    rows: NDArray[np.intp]
    counts: NDArray[np.int64]
    days: NDArray[np.int64]


def messages_of(
    form: str,
    users: NDArray[np.uint64],
    items: NDArray[np.uint64],
    days: NDArray[np.int64],
    chunk: int,
) -> Messages:
    """Return the messages of ratings (m,) in time order; `chunk` rows are packed together."""
    if form == "single":
        return Messages(np.arange(len(users)), np.ones(len(users), np.int64), days)
    groups = days if form == "daily" else np.arange(len(users)) // chunk
    rows = np.lexsort((items, users, groups))
    begins = np.ones(len(rows), np.bool_)
    begins[1:] = (np.diff(groups[rows]) != 0) | (users[rows][1:] != users[rows][:-1])
    heads = np.flatnonzero(begins)
    sent = days[rows[heads]] if form == "daily" else np.full(len(heads), days.max(initial=0))
    return Messages(rows, np.diff(heads, append=len(rows)), sent)

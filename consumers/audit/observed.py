"""The records of a deployment as columns: rating messages, replies, and what is no event.

`reading.py` makes them from records. Of a log that is longer than the memory they hold a sample of
the accounts, each with all its records:

    looked at    h(key, pseudonym) < 2^(64 - halvings);   h: keyed blake2b-64

Each halving drops about half of the accounts with all their records, so every claim about a single
account holds for the sample as for the log. The key is random: a writer cannot choose pseudonyms
that are looked at, or are not.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from stream_app.privacy.gaussian.certificate import NoisySum
from stream_app.wire import LIST_LENGTH

MOST_HALVINGS = 8  # with the accounts in `always`
MOST_LENGTHS = 4096  # lengths of replies that are counted one by one


class Source(StrEnum):
    """The topic that a record comes from, by its role in the deployment."""

    RATINGS = "ratings"
    REPLIES = "recommendations"


@dataclass(frozen=True)
class Record:
    """One record of a topic; `time` in milliseconds since 1970, `headers` counts those
    that are not its tag."""

    source: Source
    partition: int
    offset: int
    time: int
    key: bytes | None
    value: bytes | None
    headers: int = 0


@dataclass(frozen=True)
class Sample:
    """1 / 2^halvings of all accounts; `always`: accounts that every sample has."""

    halvings: int = 0
    key: bytes = field(default_factory=lambda: os.urandom(16), repr=False)
    always: frozenset[bytes] = frozenset()

    def holds(self, pseudonym: bytes) -> bool:
        """Return whether an account is looked at."""
        if not self.halvings or pseudonym in self.always:
            return True
        digest = blake2b(pseudonym, digest_size=8, key=self.key).digest()
        return not int.from_bytes(digest, "big") >> (64 - self.halvings)

    def halved(self) -> Sample:
        """Return the sample of half of these accounts; in the end not those in `always`."""
        always = self.always if self.halvings < MOST_HALVINGS else frozenset[bytes]()
        return replace(self, halvings=min(64, self.halvings + 1), always=always)

    def __str__(self) -> str:
        return "all" if not self.halvings else f"1 of {2**self.halvings:,}"


@dataclass(frozen=True, eq=False)
class Messages:
    """Rating messages, one row each in the order of arrival within their partition.

    Integer columns (m,): `device` and `mechanism` are indexes into `devices` and the allow-list,
    `count` ratings, `size` bytes, `time` in ms. The ratings of message i are the rows
    `first[i] : first[i + 1]` of `items`, `reports` and `masks` (0 without a mask), shape (r,).
    """

    devices: tuple[bytes, ...]
    device: NDArray[np.int64]
    seq: NDArray[np.int64]
    mechanism: NDArray[np.int64]
    epoch: NDArray[np.int64]
    count: NDArray[np.int64]
    size: NDArray[np.int64]
    time: NDArray[np.int64]
    arrival: NDArray[np.int64]
    first: NDArray[np.int64]
    items: NDArray[np.uint64]
    reports: NDArray[np.uint8]
    masks: NDArray[np.uint16]

    def __len__(self) -> int:
        return len(self.device)

    def rows(self, messages: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows of some messages, message by message."""
        counts = self.count[messages]
        ends = np.cumsum(counts)
        inside = np.arange(int(counts.sum())) - np.repeat(ends - counts, counts)
        return np.repeat(self.first[messages], counts) + inside

    def under(self, mechanism: int) -> NDArray[np.int64]:
        """Return the messages of a mechanism."""
        return np.flatnonzero(self.mechanism == mechanism)


@dataclass(frozen=True)
class Contributed:
    """One account's contribution to a stage that is closed; `epoch` is the day of its record."""

    device: bytes
    epoch: int
    sum: NoisySum


@dataclass(frozen=True)
class Oddities:
    """Counts of what is beside the events, by kind."""

    rejected: Mapping[str, int]
    headers: int
    extra_bytes: int
    tests: int
    redelivered: int
    reused: int
    records: int


@dataclass
class Replies:
    """Counts of the replies; honest ones are in the order of arrival of their partition."""

    total: int = 0
    lengths: Counter[int] = field(default_factory=Counter)
    other_entries: int = 0  # with another number of entries than all should have
    other_lengths: int = 0  # beyond `MOST_LENGTHS` of them
    shorter: int = 0  # than the one before in the partition
    _before: dict[int, int] = field(default_factory=dict, repr=False)

    def add(self, size: int, entries: int, partition: int) -> None:
        """Count one reply."""
        self.total += 1
        self.other_entries += entries != LIST_LENGTH
        if size in self.lengths or len(self.lengths) < MOST_LENGTHS:
            self.lengths[size] += 1
        else:
            self.other_lengths += 1
        self.shorter += size < self._before.get(partition, size)
        self._before[partition] = size


@dataclass(frozen=True, eq=False)
class Observed:
    """Everything that the observer has read, of the accounts of the `sample`."""

    messages: Messages
    replies: Replies
    oddities: Oddities
    sample: Sample = field(default_factory=Sample)
    contributed: Sequence[Contributed] = ()

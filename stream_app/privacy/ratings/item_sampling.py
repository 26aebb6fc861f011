"""The choice of reported cells: by a public schedule or a random key, never by the ratings.

A report that is sent at the time of a rating reveals that rating's existence. A device whose
mechanism protects presence therefore reports every cell of a public scope once, at the end of an
epoch, missing ones included. Neither the choice nor the number of cells nor the size of the payload
may depend on its ratings.

    slot(j)    = floor(h(key, j) * period / 2^64)          h: `words`, key public
    scope(e)   = {j : slot(j) = (e - first) mod period}    for first <= e < first + rounds * period

Every item is in scope once in a round of `period` epochs, so a cell is reported at most `rounds`
times and costs rounds * epsilon in total (every repeated report about the same rating is a new
debit). A rating after the last turn of its cell is never reported.

A user with a budget E for the whole record can instead report s = max(1, floor(E / 2.5)) items at
E / s each: fewer reports with less noise (the variance of a mean over users is (n / s) Var(E / s)).
A key of the device, drawn independently of all ratings, picks the sample, so only s reports depend
on the record:  s * (E / s) = E  protects the user.

    word i of j    mix(mix(j + key) + i * 0x9e3779b97f4a7c15), i = 1, 2, ...    modulo 2^64
    mix            splitmix64's finalizer: x ^= x >> 30; x *= 0xbf58476d1ce4e5b9; x ^= x >> 27;
                   x *= 0x94d049bb133111eb; x ^= x >> 31

h(key, j) is word 1. Integer arithmetic only, so every machine has the same words.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
CLEAR = Fraction(5, 2)  # least epsilon of a sampled report, budget permitting


@dataclass(frozen=True)
class Scope:
    """The public schedule of a catalogue; ValueError for a field out of range."""

    key: int
    period: int
    first: int = 0
    rounds: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.key < 2**64:
            raise ValueError(f"scope key {self.key}: a number from 0 to 2^64 - 1")
        if not 1 <= self.period <= 2**31:
            raise ValueError(f"scope period {self.period}: 1 to 2^31 epochs")
        if self.first < 0:
            raise ValueError(f"scope first {self.first}: the first epoch is 0 or later")
        if not 1 <= self.rounds <= 1000:
            raise ValueError(f"scope rounds {self.rounds}: a cell is reported 1 to 1000 times")

    def items(self, catalogue: NDArray[np.uint64], epoch: int) -> NDArray[np.uint64]:
        """Return the keys of a catalogue (n,) that are in scope, in the catalogue's order."""
        past = epoch - self.first
        if not 0 <= past < self.rounds * self.period:
            return catalogue[:0]
        return np.asarray(catalogue[self.slots(catalogue) == past % self.period], np.uint64)

    def slots(self, catalogue: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the slot of each key of a catalogue (n,), in [0, period)."""
        return _below(words(catalogue, 1, self.key)[:, 0], self.period).astype(np.int64)


@dataclass(frozen=True)
class ItemSample:
    """Some items of a catalogue, drawn once for a device, and the epsilon of each report."""

    budget: Fraction
    reports: int

    @classmethod
    def from_budget(cls, budget: Fraction) -> ItemSample:
        """Return the sample that spends a user's budget; ValueError unless above 0."""
        if budget <= 0:
            raise ValueError(f"budget {budget}: a user's epsilon is above 0")
        return cls(budget, max(1, math.floor(budget / CLEAR)))

    @property
    def epsilon(self) -> Fraction:
        """The exact epsilon of each report, E / s."""
        return self.budget / self.reports

    def items(self, catalogue: NDArray[np.uint64], key: int) -> NDArray[np.uint64]:
        """Return the s keys of a catalogue (n,) that the device's `key` picks, all where n <= s.

        They are the first s in the order of h(key, j), so any s items are as likely as any others;
        the same key picks the same items again, in every order of the catalogue.
        """
        drawn = words(catalogue, 1, key)[:, 0]
        return catalogue[np.lexsort((catalogue, drawn))[: self.reports]]


def _below(word: NDArray[np.uint64], limit: int) -> NDArray[np.uint64]:
    """Return floor(word * limit / 2^64) to 32 bits of the word."""
    return np.asarray((word >> np.uint64(32)) * np.uint64(limit) >> np.uint64(32), np.uint64)


def words(items: NDArray[np.uint64], count: int, key: int) -> NDArray[np.uint64]:
    """Return the first `count` words of each item key (c,), shape (c, count)."""
    # numpy arrays of unsigned integers wrap silently: arithmetic modulo 2^64.
    begins = _mix(np.asarray(items, np.uint64) + np.array([key], np.uint64))
    return _mix(begins[:, None] + np.arange(1, count + 1, dtype=np.uint64) * _GOLDEN)


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = (x ^ (x >> np.uint64(30))) * _M1
    x = (x ^ (x >> np.uint64(27))) * _M2
    return x ^ (x >> np.uint64(31))

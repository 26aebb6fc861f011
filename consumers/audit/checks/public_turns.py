"""The public turns of a scope: the cells that an account sends, whenever it enrolled and started.

    slot(j)      0 .. R - 1 by a public hash: item j has its turn in the epochs e = slot(j) mod R
    turns(j)     of an account that enrolled in epoch a, by epoch e: those in a + 1 .. e
    cells(a, e)  the items with min(turns(j), rounds) above the number of reports so far

An account that first reports in epoch f has enrolled in an epoch before f, and has missed the
epochs between if its program started late. So two honest accounts of one first epoch send
different cells where R > 1, and each of them exactly the cells of some a < f, in all its epochs.
R is part of the public configuration, or is that of `LONGEST` at most which explains most of what
devices send in their first epoch: the hash is public.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from consumers.audit.configuration import PublicConfiguration
from consumers.audit.observed import Messages
from stream_app.privacy.ratings.item_sampling import Scope

LONGEST = 366  # epochs between two turns of an item, where the observer is not given the number
_SAMPLE = 40  # devices from whose first epochs the number is taken

Keys = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class PublicTurns:
    """The items of a scope, rising keys (n,), and their slots (n,) of `period`."""

    scope: Keys
    slots: NDArray[np.int64]
    period: int
    rounds: int = 1
    _first: dict[int, NDArray[np.int64]] = field(default_factory=dict, repr=False)

    @classmethod
    def of_period(cls, scope: Keys, period: int, key: int, rounds: int = 1) -> PublicTurns:
        """Return the turns of a scope whose items have one in `period` epochs."""
        return cls(scope, Scope(key, period).slots(scope), period, rounds)

    def explain(self, epochs: Sequence[int], sent: Sequence[Keys]) -> int | None:
        """Return the latest epoch of enrolment after which an account sends these cells.

        `sent` are rising keys for each of the rising `epochs`; None where no epoch explains them.
        """
        sizes = self._sizes_of_the_first(epochs[0])
        for late in np.flatnonzero(sizes == len(sent[0])).tolist():
            enrolled = epochs[0] - 1 - late
            if self._sends(enrolled, epochs, sent):
                return int(enrolled)
        return None

    def _turns(self, enrolled: int, epoch: int) -> NDArray[np.int64]:
        """Return how many turns each item had after the enrolment, by the epoch, (n,)."""
        before = (enrolled - self.slots) // self.period
        return np.asarray((epoch - self.slots) // self.period - before, np.int64)

    def _sizes_of_the_first(self, epoch: int) -> NDArray[np.int64]:
        """Return how many cells a first report in `epoch` has, by the number of missed epochs."""
        if epoch not in self._first:
            back = np.bincount((epoch - self.slots) % self.period, minlength=self.period)
            whole = np.full(self.period * (self.rounds - 1), len(self.scope), np.int64)
            self._first[epoch] = np.concatenate((np.cumsum(back), whole))
        return self._first[epoch]

    def _sends(self, enrolled: int, epochs: Sequence[int], sent: Sequence[Keys]) -> bool:
        reports = np.zeros(len(self.scope), np.int64)
        for epoch, cells in zip(epochs, sent, strict=True):
            left = np.minimum(self._turns(enrolled, epoch), self.rounds) > reports
            if not np.array_equal(self.scope[left], cells):
                return False
            reports += left
        return True


def public_turns(
    messages: Messages, mechanism: int, configuration: PublicConfiguration
) -> PublicTurns | None:
    """Return the turns that are public, or that the log shows; None where it shows none."""
    rounds, key = configuration.rounds, configuration.scope_key
    scope = configuration.scope
    if scope is None:
        scope = np.unique(messages.items[messages.rows(messages.under(mechanism))])
    if configuration.rotate_every is not None:
        return PublicTurns.of_period(scope, configuration.rotate_every, key, rounds)
    first = _first_epochs(messages, mechanism)
    found = [PublicTurns.of_period(scope, period, key) for period in range(2, LONGEST + 1)]
    explained = [sum(turns.explain(*each) is not None for each in first) for turns in found]
    best = int(np.argmax(explained))
    if 2 * explained[best] < len(first):
        return None
    return PublicTurns(scope, found[best].slots, found[best].period, rounds)


def late_starters(
    messages: Messages,
    mechanism: int,
    uneven: NDArray[np.int64],
    configuration: PublicConfiguration,
) -> NDArray[np.int64]:
    """Return those of the `uneven` devices that send what their turns give, (n,) rising."""
    if not len(uneven):
        return uneven
    turns = public_turns(messages, mechanism, configuration)
    if turns is None:
        return uneven[:0]
    own = _cells_of(messages, mechanism, uneven)
    return np.array([d for d, each in own.items() if turns.explain(*each) is not None], np.int64)


def _first_epochs(messages: Messages, mechanism: int) -> list[tuple[list[int], list[Keys]]]:
    """Return the first epoch and its cells of some devices, evenly among all."""
    devices = np.unique(messages.device[messages.under(mechanism)])
    chosen = devices[np.linspace(0, len(devices) - 1, min(_SAMPLE, len(devices))).astype(int)]
    return [
        (epochs[:1], cells[:1]) for epochs, cells in _cells_of(messages, mechanism, chosen).values()
    ]


def _cells_of(
    messages: Messages, mechanism: int, devices: NDArray[np.int64]
) -> dict[int, tuple[list[int], list[Keys]]]:
    """Return the epochs of each device, rising, and the rising keys that it sends in each."""
    chosen = messages.under(mechanism)
    chosen = chosen[np.isin(messages.device[chosen], devices)]
    rows, counts = messages.rows(chosen), messages.count[chosen]
    owner = np.repeat(messages.device[chosen], counts)
    epoch, items = np.repeat(messages.epoch[chosen], counts), messages.items[rows]
    order = np.lexsort((items, epoch, owner))
    owner, epoch, items = owner[order], epoch[order], items[order]
    starts = np.flatnonzero((np.diff(owner, prepend=-1) != 0) | (np.diff(epoch, prepend=-1) != 0))
    found: dict[int, tuple[list[int], list[Keys]]] = {}
    for start, end in zip(starts, np.append(starts[1:], len(items)), strict=True):
        epochs, cells = found.setdefault(int(owner[start]), ([], []))
        epochs.append(int(epoch[start]))
        cells.append(items[start:end])
    return found

"""On which cells an account reports: those whose turn came since it enrolled and that are left.

    turn(e)       the items of the public scope whose slot is e mod rotate_every
    due(a, e)     the items with a turn in the epochs  a + 1 .. e,  a: the epoch of enrolment
    times         how many turns each has had by then, at most `rounds`: so often it is reported

An account that missed an epoch, because the program did not run, reports on the cells of that epoch
at its next moment. Which cells were reported is in the journal. No argument is a rating. Of a scope
that a server names (`most`), a device reports on the items that its own key picks, as many as its
budget holds, so that the server cannot choose them.

What is due at a moment is one request for the journal: the cells that are left or, where value
alone is protected, the ratings that were not reported yet; no more than the person's budget holds.
Ratings are looked up after the cells are chosen, and of the cells alone: the work before a message
is the same however much was rated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from producers.device.rating import Rated, ScaledRatings
from producers.device.requests import ReportSettings
from producers.device.scope import turn
from producers.fleet.epoch_requests import EmissionOptions, EpochRequests
from producers.journal import Enrolment, Journal, Request
from stream_app.privacy.ratings.item_sampling import ItemSample


@dataclass(frozen=True, eq=False)
class Cells:
    """The public scope, rising keys (n,), each of which has its turn once in `rotate_every` epochs;
    `key` decides which in which. `most`: a device picks so many of them by its own key.
    `rounds`: how often a cell is reported, each time for another epsilon."""

    scope: NDArray[np.uint64]
    rotate_every: int = 1
    key: int = 0
    most: int | None = None
    rounds: int = 1
    _due: dict[tuple[int, int], NDArray[np.uint64]] = field(default_factory=dict, repr=False)

    @property
    def sample(self) -> ItemSample | None:
        """The items that a device picks, None where it reports on all."""
        return None if self.most is None else ItemSample(Fraction(1), self.most)

    def due(self, enrolled: int, epoch: int) -> NDArray[np.uint64]:
        """Return the items that had their turn after enrolment, rising, (m,). Accounts with the
        same turns share the array."""
        turns = min(epoch - enrolled, self.rotate_every)
        if turns <= 0:
            return self.scope[:0]
        if turns == self.rotate_every:
            return self.scope
        known = self._due.get((turns, epoch))
        if known is None:
            known = np.sort(
                np.concatenate(
                    [
                        turn(self.scope, epoch - back, self.rotate_every, self.key)
                        for back in range(turns)
                    ]
                )
            )
            if self._due and next(iter(self._due))[1] != epoch:
                self._due.clear()
            self._due[turns, epoch] = known
        return known

    def left(
        self, enrolled: int, epoch: int, reports: Callable[[NDArray[np.uint64]], NDArray[np.int64]]
    ) -> NDArray[np.uint64]:
        """Return the items that had more turns than reports, rising, (m,); `reports` returns how
        often each key was reported. At one moment an item is reported once."""
        due = self.due(enrolled, epoch)
        if self.rounds == 1 or not len(due):
            return due
        times = np.full(len(due), (epoch - enrolled) // self.rotate_every, np.int64)
        rest = (epoch - enrolled) % self.rotate_every
        for back in range(rest):
            times += np.isin(due, turn(self.scope, epoch - back, self.rotate_every, self.key))
        return due[np.minimum(times, self.rounds) > reports(due)]


@dataclass
class Reporting:
    """How the accounts report: `cells` is None where presence is public, and is replaced once a
    scope is known that a server names."""

    settings: ReportSettings
    cells: Cells | None = None


def due_request(
    account: Enrolment, journal: Journal, reporting: Reporting, ratings: ScaledRatings, epoch: int
) -> tuple[Request | None, bool]:
    """Return the request of an account, None where nothing is due or affordable, and whether the
    budget holds fewer reports than are due. May raise `Unreadable`."""
    cells, scope = reporting.cells, None
    if cells is not None:
        scope = cells.left(account.epoch, epoch, partial(journal.reports, account.device))
        if not len(scope):
            return None, False
    options = EmissionOptions(scope)
    if cells is not None and cells.sample is not None:
        options = EmissionOptions(scope, cells.sample, drawn_from=cells.scope)
    found = EpochRequests(ratings, reporting.settings, journal, epoch, options)
    rated = ratings.rated(account.device) if scope is None else Rated()
    left = found.unreported(account.device, rated)
    keys = found.affordable(account.device, left)
    held_back = len(keys) < len(left) and options.sample is None
    if not len(keys):
        return None, held_back
    if scope is not None:
        missing = reporting.settings.mechanism.inputs - 1
        raw_levels = ratings.levels(account.device, keys, missing)
        rated = Rated(keys, raw_levels.astype(np.uint8))
    return found.request(account.device, rated, keys)[0], held_back

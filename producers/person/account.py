"""What the journal knows of one device: its terms, numbers, reported keys and spent budget.

    seqs           topic -> the last seq that was used
    reported_keys  scope -> keys that were reported, sorted, once for each report
    spends         (epoch, adjacency, scope, mechanism) -> nano-epsilon, 10^-18 of delta, reports,
                   and how many of these are of keys that were reported before

Epochs only rise, so the spends are in the order of their epochs. What counts in the window is kept
beside them: what is new is added, and what has left the window is taken out, so that a check costs
the same after ten releases and after ten thousand.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from producers.person.enrolment import NANO, Enrolment
from producers.person.reports import NOTHING, Used
from stream_app.privacy.gaussian.campaign_loss import is_campaign
from stream_app.privacy.mechanism import LARGEST_EPSILON
from stream_app.privacy.privacy_map import Adjacency

Spend = tuple[int, str, str, str]  # epoch, adjacency, scope, mechanism
_UNKNOWN = 2**32  # above every epoch
_LARGEST_NANO = int(LARGEST_EPSILON) * NANO  # that one report can have cost
_RATINGS = "rating"  # the scope of reports on single ratings


@dataclass(frozen=True)
class Spent:
    """Spent budget of a device under one adjacency, on `reports` reports, of which `again` are of
    keys that were reported before."""

    adjacency: str
    nano: int = 0
    atto: int = 0
    reports: int = 0
    again: int = 0

    def __add__(self, other: Spent) -> Spent:
        """Return the sum; both are of one adjacency."""
        return Spent(
            self.adjacency,
            self.nano + other.nano,
            self.atto + other.atto,
            self.reports + other.reports,
            self.again + other.again,
        )


class Account:
    """Terms, used seqs, reported keys and spent budget of one device."""

    __slots__ = (
        "_after",
        "_keys",
        "_place",
        "_used",
        "enrolment",
        "reported_keys",
        "seqs",
        "spends",
    )

    def __init__(self) -> None:
        self.enrolment: Enrolment | None = None
        self.seqs: dict[str, int] = {}
        self.reported_keys: dict[str, NDArray[np.uint64]] = {}
        self.spends: dict[Spend, list[int]] = {}
        self._keys: list[Spend] = []  # of the spends, oldest first
        self._after, self._place = -1, 0  # the first spend in the window that `_used` sums up
        self._used: dict[str, Used] = {}

    def spend(self, key: Spend, nano: int, atto: int, reports: int, again: int = 0) -> None:
        """Add a debit; its epoch is the largest so far, and not before the account's own."""
        key = self._dated(key)
        spend = self.spends.get(key)
        if spend is None:
            spend = self.spends[key] = [0, 0, 0, 0]
            self._keys.append(key)
        spend[0] += nano
        spend[1] += atto
        spend[2] += reports
        spend[3] += again
        if key[0] > self._after:
            self._count(key, reports, nano, atto, again)
        else:
            self._after = _UNKNOWN  # the clock was ahead of this release: sum up again

    def _dated(self, key: Spend) -> Spend:
        """Return the key with an epoch that a clock set back has not made older."""
        newest = self._keys[-1][0] if self._keys else 0
        since = 0 if self.enrolment is None else self.enrolment.epoch
        return max(key[0], newest, since), *key[1:]

    def used(self, after: int = -1) -> dict[str, Used]:
        """Return what counts for a budget by mechanism, in the epochs above `after`."""
        after = max(after, -1)
        if after < self._after:
            self._after, self._place, self._used = -1, 0, {}
            for key, (nano, atto, reports, again) in self.spends.items():
                self._count(key, reports, nano, atto, again)
        while self._place < len(self._keys) and (key := self._keys[self._place])[0] <= after:
            nano, atto, reports, again = self.spends[key]
            self._count(key, -reports, -nano, -atto, -again)
            self._place += 1
        self._after = after
        return self._used

    def _count(self, key: Spend, reports: int, nano: int, atto: int, again: int) -> None:
        _, kind, _, mechanism = key
        if kind == NOTHING:
            return
        self._used.setdefault(mechanism, Used()).add(reports, nano, atto, again)

    def campaigns(self, after: int) -> list[tuple[int, str, int]]:
        """Return the debits of campaigns in the epochs above `after`, oldest first: epoch,
        mechanism, how many."""
        found: list[tuple[int, str, int]] = []
        for key in reversed(self._keys):
            if key[0] <= after:
                break
            if is_campaign(key[3]) and self.spends[key][2]:
                found.append((key[0], key[3], self.spends[key][2]))
        return found[::-1]

    @property
    def total(self) -> int:
        """The sum of nano-epsilon over all adjacencies except `nothing`."""
        return sum(spend[0] for (_, kind, _, _), spend in self.spends.items() if kind != NOTHING)

    def spent(self) -> dict[tuple[str, str], Spent]:
        """Return the spends by (scope, adjacency)."""
        found: dict[tuple[str, str], Spent] = {}
        for (_, kind, scope, _), spend in self.spends.items():
            found[scope, kind] = found.get((scope, kind), Spent(kind)) + Spent(kind, *spend)
        return found

    @property
    def reports_on_one_rating(self) -> int:
        """The largest number of reports on one rating; a memo holds a key for each report."""
        memo = self.reported_keys.get(_RATINGS)
        return 0 if memo is None else int(np.unique(memo, return_counts=True)[1].max())

    @property
    def worst_rating(self) -> int:
        """The nano-epsilon that one rating has cost at most, for life: the largest reports that it
        can have had, and every campaign.

        Reports of one mechanism cost the same. Where an older murmurec kept the sum of a day alone,
        a report of that day may have cost all of it, as far as a mechanism can claim so much.
        """
        whole, each = 0, []
        for (_, kind, scope, mechanism), (nano, _, reports, _) in self.spends.items():
            if scope != _RATINGS:
                # Another record of the person, by way of none, where that is what is hidden.
                whole += nano * (2 if kind == Adjacency.USER else 1)
            elif mechanism:
                each.append((-(-nano // reports), reports))
            else:
                each += [(_LARGEST_NANO, nano // _LARGEST_NANO), (nano % _LARGEST_NANO, 1)]
        left = self.reports_on_one_rating
        for nano, reports in sorted(each, reverse=True):
            whole += nano * min(left, reports)
            left -= min(left, reports)
        return whole

    def by_adjacency(self) -> dict[str, Spent]:
        """Return the lifetime spends by adjacency, summed over scopes."""
        found: dict[str, Spent] = {}
        for (_, kind), spent in self.spent().items():
            found[kind] = found.get(kind, Spent(kind)) + spent
        return found


def report_counts(reported_keys: NDArray[np.uint64], keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return how often each key (n,) was reported; `reported_keys` is sorted."""
    return reported_keys.searchsorted(keys, "right") - reported_keys.searchsorted(keys, "left")


def merge_sorted(old: NDArray[np.uint64], new: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the sorted column of both."""
    merged = np.concatenate((old, new))
    merged.sort(kind="stable")
    return merged

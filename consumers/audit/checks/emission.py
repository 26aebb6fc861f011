"""Who emits, how many cells and when, where presence is protected: it may depend on no rating.

    cohort     devices with the same first epoch under a mechanism; in each later epoch all of them
               emit or none, until a device is silent for good (withdrawn, or its budget is spent);
               a program that was off makes up for a missed epoch at its next moment, so that all
               cells so far are as many as those of the others: `AWAY` of the turns may be missed so
    cells      the same number for every device of a cohort that emits, or exactly the cells whose
               turn came since an earlier enrolment (`public_turns`); in as few messages as hold
               them, of nearly equal size
    moments    in the order of h(pseudonym, epoch), the public fraction of the epoch's end
    scope      items of the public list only; each cell at most `rounds` times

Epochs after the newest in which a twentieth of the devices emits do not count: a single record of a
far epoch would otherwise show every silent account as one whose moment has not come.

An account that is enrolled and never emits shows that it has nothing to say. With the public list
of enrolled accounts that is visible from one epoch on; without it, only where a device is silent in
between.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from consumers.audit.checks.moment_check import emission_share
from consumers.audit.checks.public_turns import late_starters
from consumers.audit.configuration import PublicConfiguration
from consumers.audit.findings import Finding, decided, untestable
from consumers.audit.observed import Messages, Observed
from stream_app.privacy.privacy_map import Adjacency
from stream_app.wire import MAX_RATINGS

AWAY = 0.05  # share of turns that may be missed and made up for
FEW = 0.05  # share of devices of an epoch that counts, and of devices that may be early


@dataclass(frozen=True, eq=False)
class Turns:
    """What each device sends in each epoch under one mechanism, one row a device and epoch."""

    device: NDArray[np.int64]
    epoch: NDArray[np.int64]
    cells: NDArray[np.int64]
    messages: NDArray[np.int64]
    smallest: NDArray[np.int64]  # cells of the smallest message
    largest: NDArray[np.int64]
    time: NDArray[np.int64]  # of the first message

    @property
    def cohort(self) -> NDArray[np.int64]:
        """The first epoch of each row's device."""
        first = np.full(int(self.device.max()) + 1, np.iinfo(np.int64).max)
        np.minimum.at(first, self.device, self.epoch)
        return np.asarray(first[self.device], np.int64)

    @property
    def total(self) -> NDArray[np.int64]:
        """The cells of each row's device up to its epoch."""
        sums = np.cumsum(self.cells)
        first = np.flatnonzero(np.diff(self.device, prepend=-1))
        before = (sums - self.cells)[first]
        return np.asarray(sums - np.repeat(before, np.diff(first, append=len(sums))), np.int64)

    @property
    def newest(self) -> int:
        """The newest epoch in which a share of `FEW` of the devices emits, two at least. Records of
        a later one are the first of a day, or forged."""
        epochs, emitting = np.unique(self.epoch, return_counts=True)
        devices = len(np.unique(self.device))
        return int(epochs[emitting >= min(emitting.max(), max(2, FEW * devices))].max())

    def until(self, epoch: int) -> Turns:
        """Return the turns up to an epoch."""
        kept = self.epoch <= epoch
        return Turns(**{each.name: getattr(self, each.name)[kept] for each in fields(self)})

    def usual(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which rows have the most frequent number of their cohort and epoch."""
        turn_of = np.stack([self.cohort, self.epoch, numbers], axis=1)
        kinds, kind, counts = np.unique(turn_of, axis=0, return_inverse=True, return_counts=True)
        _, group = np.unique(kinds[:, :2], axis=0, return_inverse=True)
        most = np.full(int(group.max()) + 1, -1)
        for each in np.lexsort((-kinds[:, 2], counts)).tolist():
            most[group.reshape(-1)[each]] = each  # the most frequent is the last, then the smallest
        return np.asarray(most[group.reshape(-1)][kind.reshape(-1)] == kind.reshape(-1), np.bool_)


def turns(messages: Messages, mechanism: int) -> Turns:
    """Return the turns of a mechanism, by device and epoch."""
    chosen = messages.under(mechanism)
    place = np.stack([messages.device[chosen], messages.epoch[chosen]], axis=1)
    rows, turn = np.unique(place, axis=0, return_inverse=True)
    turn = turn.reshape(-1)
    most = np.iinfo(np.int64).max
    smallest, time = np.full(len(rows), most), np.full(len(rows), most)
    largest = np.zeros(len(rows), np.int64)
    np.minimum.at(smallest, turn, messages.count[chosen])
    np.maximum.at(largest, turn, messages.count[chosen])
    np.minimum.at(time, turn, messages.time[chosen])
    cells = np.bincount(turn, weights=messages.count[chosen], minlength=len(rows))
    sent = np.bincount(turn, minlength=len(rows))
    return Turns(rows[:, 0], rows[:, 1], cells.astype(np.int64), sent, smallest, largest, time)


def emission(observed: Observed, configuration: PublicConfiguration) -> Iterator[Finding]:
    """Yield the findings about each mechanism that protects presence."""
    messages = observed.messages
    for place, mechanism in enumerate(configuration.mechanisms):
        if mechanism.adjacency is not Adjacency.CELL:
            continue
        if not len(messages.under(place)):
            reason = "no report of this mechanism"
            yield untestable(f"{mechanism.id}: every enrolled account emits", reason)
            continue
        found = turns(messages, place)
        found = found.until(found.newest)
        different = np.unique(found.device[~found.usual(found.cells) & ~found.usual(found.total)])
        late = late_starters(messages, place, different, configuration)
        yield _silent(mechanism.id, found, observed, configuration, late)
        yield _uneven(mechanism.id, found, late)
        yield _outside(mechanism.id, messages, place, configuration)
    yield _repeated(messages, configuration)


def _silent(
    name: str,
    found: Turns,
    observed: Observed,
    configuration: PublicConfiguration,
    late: NDArray[np.int64],
) -> Finding:
    claim = f"{name}: every enrolled account emits in every epoch"
    last = np.zeros(int(found.device.max()) + 1, np.int64)
    np.maximum.at(last, found.device, found.epoch)
    cohort, holes, made_up, checked = found.cohort, 0, 0, 0
    in_full = np.ones(len(last), np.bool_)
    in_full[found.device[~found.usual(found.total)]] = False
    in_full[late] = True
    for first in np.unique(cohort):
        own = cohort == first
        devices, emitting = np.unique(found.device[own], return_counts=True)
        turns_of = np.searchsorted(np.unique(found.epoch[own]), last[devices], "right")
        missed = turns_of - emitting
        holes += int(missed.sum())
        made_up += int(missed[in_full[devices]].sum())
        checked += int(turns_of.sum())
    epochs = len(np.unique(found.epoch))
    measured = (
        f"{holes:,} silent of {checked:,} turns in {epochs:,} epochs, {made_up:,} made up for "
        f"later ({AWAY:.0%} may be)"
    )
    if made_up <= AWAY * checked:
        holes -= made_up
    if configuration.enrolled is None:
        if not holes and epochs == 1:
            return untestable(claim, "one epoch and no list of enrolled accounts (--enrolled)")
        return decided(claim, holes, measured, turns=checked)
    enrolled = frozenset(filter(observed.sample.holds, configuration.enrolled))
    never = _never(found, observed.messages, enrolled)
    measured += f", {never:,} of {len(enrolled):,} enrolled accounts never emitted"
    return decided(claim, holes + never, measured, turns=checked, never=never)


def _never(found: Turns, messages: Messages, enrolled: frozenset[bytes]) -> int:
    """Return how many enrolled accounts never emitted, although a later moment has passed."""
    newest = int(found.epoch.max())
    emitters = {messages.devices[device] for device in found.device.tolist()}
    recent = [messages.devices[d] for d in found.device[found.epoch == newest].tolist()]
    shares = sorted(emission_share(device, newest) for device in recent)
    passed = shares[int((1 - FEW) * (len(shares) - 1))]
    return sum(emission_share(device, newest) <= passed for device in enrolled - emitters)


def _uneven(name: str, found: Turns, late: NDArray[np.int64]) -> Finding:
    claim = f"{name}: every account sends as many cells and messages as the others"
    unlike = ~found.usual(found.cells) & ~found.usual(found.total)
    different = int((unlike & ~np.isin(found.device, late)).sum())
    parts = -(-found.cells // MAX_RATINGS)
    wrong = (found.messages != parts) | (found.largest - found.smallest > 1)
    uneven = int(wrong.sum())
    measured = (
        f"{different:,} of {len(found.device):,} turns with another number of cells, "
        f"{uneven:,} split unevenly"
    )
    if len(late):
        measured += f"; {len(late):,} accounts enrolled earlier than others of their first epoch"
    return decided(claim, different + uneven, measured, turns=len(found.device))


def _outside(
    name: str, messages: Messages, mechanism: int, configuration: PublicConfiguration
) -> Finding:
    claim = f"{name}: only items of the public scope are reported"
    if configuration.scope is None:
        return untestable(claim, "no public list of items (--scope)")
    reported = np.unique(messages.items[messages.rows(messages.under(mechanism))])
    outside = int((~np.isin(reported, configuration.scope)).sum())
    listed = len(configuration.scope)
    measured = f"{outside:,} of {len(reported):,} items are not on the list of {listed:,}"
    return decided(claim, outside, measured, items=len(reported))


def _repeated(messages: Messages, configuration: PublicConfiguration) -> Finding:
    claim = f"a cell is reported at most {configuration.rounds} times"
    if configuration.rounds == 1:
        claim = "a cell is reported once"
    if not len(messages):
        return untestable(claim, "no rating message")
    owner = np.repeat(messages.device, messages.count)
    mechanism = np.repeat(messages.mechanism, messages.count)
    order = np.lexsort((messages.items, mechanism, owner))
    owner, mechanism, items = owner[order], mechanism[order], messages.items[order]
    new = np.ones(len(items), np.bool_)
    new[1:] = (owner[1:] != owner[:-1]) | (mechanism[1:] != mechanism[:-1])
    new[1:] |= items[1:] != items[:-1]
    times = np.diff(np.flatnonzero(new), append=len(items))
    over = int((times > configuration.rounds).sum())
    measured = f"{over:,} of {len(times):,} cells more often, at most {int(times.max())} times"
    return decided(claim, over, measured, cells=len(times), most=int(times.max()))

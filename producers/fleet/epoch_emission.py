"""The end of an epoch: what every device sends then, so that sending says nothing about rating.

    presence protected   every item of the public scope, once: rated -> its level, else "missing";
                         all cells are sent, whatever was drawn
                         or, for a budget of the whole user, some items of the scope that a key of
                         the device picks, which has seen no rating (`privacy.scope.Sample`); at
                         most that many in the device's life, however the scope changes
    value protected      the ratings that are new in this epoch; which and how many is public

    cells of a device, shuffled --> ceil(n / 4096) messages of nearly equal size
    devices in the order of  h(pseudonym, epoch),  each at the share h / 2^64 of the time there is

Where presence is protected, number, order, size and time of messages are functions of the scope,
the pseudonym and the epoch alone: an observer who knows those learns nothing from them. A cell is
drawn once in life (the journal's memo), so a rating that comes after its cell's turn is not
reported. Messages sent at the moment of rating (`producers.fleet.replay`) tell who acts, when, how
much. A run that is interrupted leaves the rest of its messages to the next, whatever they hold.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from producers.device import requests as device
from producers.device.rating import check_levels_agree
from producers.fleet.population import Population, runs
from producers.fleet.replay import Pace, commit_when_room
from producers.journal import Journal, Message, Request
from stream_app import wire
from stream_app.privacy.adjacency import Adjacency
from stream_app.privacy.ratings.item_sampling import ItemSample

CELLS = 1 << 18  # reports that are drawn and recorded together
# Tell these hashes from every other use of blake2b.
_PERSON, _SAMPLE_PERSON = b"murmurec epoch", b"murmurec sample"


@dataclass(frozen=True)
class EpochProgress:
    """How far an epoch's end has come. `ratings` of the data were among the cells, `outside` were
    not in the scope, `before` were reported on before, `unsampled` are of items that their device
    has not picked, `held` did not fit the budget; `over` devices sent nothing because their budget
    does not hold it (of a sample: nothing of it), and `idle` ones because all their cells were
    drawn before. These five, `repeated` and `unreadable` rows are all rows of the data."""

    devices: int
    total: int
    cells: int
    messages: int
    ratings: int
    outside: int
    over: int
    idle: int
    ended: bool
    before: int = 0
    unsampled: int = 0
    held: int = 0
    repeated: int = 0
    unreadable: int = 0


def emit(
    population: Population,
    reporting: device.ReportSettings,
    *,
    journal: Journal,
    send: Callable[[Message], None],
    epoch: int,
    scope: NDArray[np.uint64] | None = None,
    sample: ItemSample | None = None,
    pace: Pace | None = None,
    republish: bool = False,
    make_room: Callable[[], None] | None = None,
    cells: int = CELLS,
) -> Iterator[EpochProgress]:
    """End an epoch for a population: every device that has something to send does so once.

    `scope`: the public items whose turn it is, rising keys; needed where presence is protected and
    refused elsewhere. `sample`: each device reports on that many items of the scope only, in its
    life: the journal's limits must be the sample's budget, for life, and where the scope has grown
    a device sends what its budget still holds, in the order of its key. `pace` spreads the devices
    over the time that the reports take at its speed.
    """
    check_levels_agree(population.scale, reporting.mechanism)
    hidden = reporting.mechanism.adjacency is Adjacency.CELL
    if hidden != (scope is not None):
        raise ValueError(
            f"mechanism {reporting.mechanism.id}: "
            + ("needs a public scope of items" if hidden else "reports what was rated, no scope")
        )
    if scope is not None and not len(scope):
        raise ValueError("scope: no item has its turn in this epoch; nothing is to be sent")
    if sample is not None and (scope is None or reporting.mechanism.epsilon != sample.epsilon):
        raise ValueError(
            f"mechanism {reporting.mechanism.id}: a sample of {sample.reports} items of a scope "
            f"needs epsilon {sample.epsilon} for each"
        )
    limits = journal.limits
    if sample is not None and (limits.epsilon != sample.budget or limits.window is not None):
        raise ValueError(
            f"sample for a budget of {sample.budget}: the journal's limit is {limits}, but must be "
            "the same and for life, or another scope is a second sample"
        )
    made = _Epoch(population, reporting, journal, journal.epoch(epoch), republish, sample)
    return _run(made, scope, send, pace or Pace(), make_room, cells)


def emission_time(pseudonym: bytes, epoch: int) -> float:
    """Return when in an epoch's end a device sends, 0 <= share < 1: a public function of both."""
    digest = blake2b(
        pseudonym + epoch.to_bytes(8, "little"), digest_size=8, person=_PERSON
    ).digest()
    return (int.from_bytes(digest, "little") >> 11) / 2**53


@lru_cache(maxsize=1024)
def balanced_slices(count: int) -> tuple[slice, ...]:
    """Return the parts of `count` cells: as few messages as hold them, of nearly equal size."""
    parts = -(-count // wire.MAX_RATINGS)
    ends = [count * i // parts for i in range(parts + 1)]
    return tuple(slice(start, end) for start, end in pairwise(ends))


def _sample_key(key: bytes, pseudonym: bytes) -> int:
    """Return what a device draws its sample by: secret, its own, and blind to its ratings."""
    digest = blake2b(pseudonym, digest_size=8, key=key, person=_SAMPLE_PERSON).digest()
    return int.from_bytes(digest, "little")


@dataclass(frozen=True)
class _Epoch:
    population: Population
    reporting: device.ReportSettings
    journal: Journal
    epoch: int
    republish: bool
    sample: ItemSample | None = None

    def rows(self) -> list[NDArray[np.int64]]:
        """Return the rows of each device, the first rating of every cell."""
        fresh = np.flatnonzero(self.population.fresh)
        fresh = fresh[np.argsort(self.population.users[fresh], kind="stable")]
        owners, heads = runs(self.population.users[fresh])
        found = [np.empty(0, np.int64)] * len(self.population.devices)
        for owner, rows in zip(owners.tolist(), np.split(fresh, heads[1:]), strict=True):
            found[owner] = rows
        return found

    def left(
        self, who: bytes, rows: NDArray[np.int64], scope: NDArray[np.uint64] | None
    ) -> NDArray[np.uint64]:
        """Return the items on which a device has not reported yet; a sample's in its own order."""
        if scope is None:
            keys = np.sort(self.population.items[rows])
        elif self.sample is None:
            keys = scope
        else:
            keys = self.sample.items(scope, _sample_key(self.journal.key, who))
        left = np.ones(len(keys), bool) if self.republish else self.journal.unreported(who, keys)
        # `keys` itself where all are left: a memo that devices share is written once.
        return keys if left.all() else keys[left]

    def stayed(
        self,
        who: bytes,
        rows: NDArray[np.int64],
        scope: NDArray[np.uint64] | None,
        left: NDArray[np.uint64],
    ) -> tuple[int, int, int]:
        """Return how many ratings in scope were reported on before, how many are of items that the
        device has not picked, and how many are among `left`."""
        mine = self.population.items[rows]
        mine = mine if scope is None else mine[np.isin(mine, scope)]
        before = 0
        if not self.republish:
            before = int(np.count_nonzero(~self.journal.unreported(who, mine)))
        among = int(np.count_nonzero(np.isin(mine, left)))
        return before, len(mine) - before - among, among

    def affordable(self, who: bytes, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return what the budget holds of these, rising: all or nothing, but of a sample the first
        by the device's key. It depends on what was spent, never on a rating."""
        room = self.journal.room(who, self.reporting.mechanism, self.epoch)
        if self.sample is not None:
            return np.sort(keys[:room])
        return keys if room is None or room >= len(keys) else keys[:0]

    def request(
        self, who: bytes, rows: NDArray[np.int64], keys: NDArray[np.uint64]
    ) -> tuple[Request, int]:
        """Return the request of one device for these items, and how many of them it has rated."""
        of = self.population
        raw_levels = np.full(len(keys), self.reporting.mechanism.inputs - 1, np.uint8)
        places = np.searchsorted(keys, of.items[rows])
        there = keys[np.minimum(places, len(keys) - 1)] == of.items[rows]
        raw_levels[places[there]] = of.raw_levels[rows[there]]
        order = np.argsort(np.frombuffer(os.urandom(8 * len(keys)), "<u8"), kind="stable")
        shuffled = keys[order]
        request = device.build_request(
            raw_levels[order],
            shuffled,
            device.masks_of(self.reporting.mechanism, shuffled, self.reporting.table),
            keys,
            self.reporting,
            device=who,
            epoch=self.epoch,
            republish=self.republish,
            parts=balanced_slices(len(keys)),
        )
        return request, int(np.count_nonzero(there))


def _run(
    made: _Epoch,
    scope: NDArray[np.uint64] | None,
    send: Callable[[Message], None],
    pace: Pace,
    make_room: Callable[[], None] | None,
    most: int,
) -> Iterator[EpochProgress]:
    devices, rows = made.population.devices, made.rows()
    when = [emission_time(who, made.epoch) for who in devices]
    order = sorted(range(len(devices)), key=lambda place: (when[place], devices[place]))
    width = 0 if scope is None else len(scope)
    width = min(width, made.sample.reports) if made.sample is not None else width
    reports = sum(map(len, rows)) if scope is None else width * len(devices)
    fresh = made.population.items[made.population.fresh]
    outside = 0 if scope is None else int(np.count_nonzero(~np.isin(fresh, scope)))
    cells = messages = ratings = over = idle = before = unsampled = held = 0
    repeated = made.population.rows - len(fresh)
    started = pace.clock()
    waiting: list[tuple[float, Request]] = []
    open_cells = 0
    for done, place in enumerate(order, 1):
        left = made.left(devices[place], rows[place], scope)
        keys = made.affordable(devices[place], left)
        stayed = made.stayed(devices[place], rows[place], scope, left)
        before, unsampled, held = before + stayed[0], unsampled + stayed[1], held + stayed[2]
        if not len(left):
            idle += 1
        elif not len(keys):
            over += 1
        else:
            request, rated = made.request(devices[place], rows[place], keys)
            waiting.append((when[place], request))
            open_cells += request.count
            ratings, held = ratings + rated, held - rated
        if open_cells < most and done < len(order):
            continue
        cells += open_cells
        messages += _send(made.journal, waiting, send, pace, started, reports, make_room)
        waiting, open_cells = [], 0
        yield EpochProgress(
            *(done, len(order), cells, messages, ratings, outside, over, idle),
            ended=done == len(order),
            before=before,
            unsampled=unsampled,
            held=held,
            repeated=repeated,
            unreadable=made.population.unreadable,
        )


def _send(
    journal: Journal,
    waiting: list[tuple[float, Request]],
    send: Callable[[Message], None],
    pace: Pace,
    started: float,
    reports: int,
    make_room: Callable[[], None] | None,
) -> int:
    """Record what some devices send, then send it, each device at its moment; return how many."""
    if not waiting:
        return 0
    messages = commit_when_room(journal, [request for _, request in waiting], None, make_room)
    given_out = iter(messages)
    for share, request in waiting:
        pace.wait(started, share * reports)
        for _ in request.parts:
            send(next(given_out))
    return len(messages)

"""The end of an epoch: all devices report then, so that sending reveals nothing about rating.

    presence protected   every item of the public scope, once: its level if rated, else "missing";
                         all cells are sent, whatever was drawn; with a budget for the whole user,
                         only the items that the device's own key picks from the scope, the same
                         whatever was rated (`item_sampling.ItemSample`), and at most
                         `ItemSample.reports` in the device's life, however the scope changes
    value protected      the ratings that are new in this epoch; which and how many is public

    cells of a device, shuffled --> ceil(n / 4096) messages of nearly equal size
    devices in the order of  h(pseudonym, epoch),  each at h / 2^64 of the available time

Where presence is protected, number, order, size and time of messages are functions of the scope,
the pseudonym and the epoch alone: an observer who knows those learns nothing from them. A cell is
drawn once in a life (the journal's reported keys), so a rating that comes after its cell's turn is
not reported. Messages sent at the moment of rating (`producers.fleet.replay`) reveal which users
are active, when and how much. An interrupted run leaves the rest of its messages to the next run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from producers.device import requests as device
from producers.device.rating import check_levels_agree
from producers.fleet.epoch_requests import EmissionOptions, EpochRequests
from producers.fleet.population import Population
from producers.fleet.replay import Pace, commit_when_room
from producers.journal import Journal, Message, PersonBudget, Request
from stream_app.privacy.adjacency import Adjacency
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.ratings.item_sampling import ItemSample

_PERSON = b"murmurec epoch"  # separates this hash from every other use of blake2b


@dataclass(frozen=True)
class EpochProgress:
    """Progress of an epoch's end: devices done of `total`, cells and messages sent.

    Rows of the data set: `ratings` are among the cells, `outside` are not in the scope, `before`
    were reported before, `unsampled` are of items outside the device's sample, `held` exceeded the
    budget, `repeated` occur twice, `unreadable` are off the scale. Their sum is the number of rows.
    Devices that sent nothing: `over` without enough budget, `idle` with all cells drawn before.
    """

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
    options: EmissionOptions | None = None,
    make_room: Callable[[], None] | None = None,
) -> Iterator[EpochProgress]:
    """End an epoch for a population: every device that has reports to send does so once.

    With a sample every account must have the sample's budget, for life. Where the scope has
    grown, a device sends as many of its items as still fit the budget, in the order of its key.
    Raises ValueError for a mechanism, scope or sample that do not go together.
    """
    options = options or EmissionOptions()
    check_levels_agree(population.scale, reporting.mechanism)
    _check_scope(reporting.mechanism, options)
    _check_sample(reporting.mechanism, options, journal, population)
    requests = EpochRequests(population, reporting, journal, journal.epoch(epoch), options)
    return _run(requests, send, make_room)


def _check_scope(mechanism: Mechanism, options: EmissionOptions) -> None:
    hidden = mechanism.adjacency is Adjacency.CELL
    if hidden != (options.scope is not None):
        raise ValueError(
            f"mechanism {mechanism.id}: "
            + (
                "needs a public scope of items"
                if hidden
                else "reports rated items only; give no scope"
            )
        )
    if options.scope is not None and not len(options.scope):
        raise ValueError("scope: no item has its turn in this epoch, so there is nothing to send")


def _check_sample(
    mechanism: Mechanism, options: EmissionOptions, journal: Journal, population: Population
) -> None:
    sample = options.sample
    if sample is None:
        return
    if options.scope is None or mechanism.epsilon != sample.epsilon:
        raise ValueError(
            f"mechanism {mechanism.id}: a sample of {sample.reports} items of a scope needs "
            f"epsilon {sample.epsilon} for each"
        )
    needed = sample_budget(sample)
    for device_id in population.devices:
        terms = journal.enrolment(device_id)
        if terms is not None and terms.budget.terms != needed.terms:
            raise ValueError(
                f"sample for a budget of {needed}: a device is enrolled with {terms.budget}, but "
                "must have the same, because another scope would be a second sample"
            )


def sample_budget(sample: ItemSample) -> PersonBudget:
    """Return the terms of an account that reports on a sample of items: its budget, for life."""
    return PersonBudget(sample.budget, Fraction(0), None)


def emission_time(pseudonym: bytes, epoch: int) -> float:
    """Return when in an epoch's end a device sends, as a fraction in [0, 1): public."""
    digest = blake2b(
        pseudonym + epoch.to_bytes(8, "little"), digest_size=8, person=_PERSON
    ).digest()
    return (int.from_bytes(digest, "little") >> 11) / 2**53


def _run(
    requests: EpochRequests, send: Callable[[Message], None], make_room: Callable[[], None] | None
) -> Iterator[EpochProgress]:
    population, options = requests.population, requests.options
    devices, rows = population.devices, requests.rows()
    times = [emission_time(pseudonym, requests.epoch) for pseudonym in devices]
    order = sorted(range(len(devices)), key=lambda place: (times[place], devices[place]))
    schedule = Schedule(options.pace, options.pace.clock(), _reports(requests, rows))
    progress = _nothing_sent(population, options)
    waiting: list[tuple[float, Request]] = []
    cells = 0
    for done, place in enumerate(order, 1):
        left = requests.unreported(devices[place], rows[place])
        keys = requests.affordable(devices[place], left)
        before, unsampled, among = requests.counts(devices[place], rows[place], left)
        rated = 0
        if len(keys):
            request, rated = requests.request(devices[place], rows[place], keys)
            waiting.append((times[place], request))
            cells += request.count
        progress = replace(
            progress,
            devices=done,
            ratings=progress.ratings + rated,
            over=progress.over + (len(left) > 0 and not len(keys)),
            idle=progress.idle + (not len(left)),
            before=progress.before + before,
            unsampled=progress.unsampled + unsampled,
            held=progress.held + among - rated,
        )
        if cells < options.cells and done < len(order):
            continue
        messages = _send(requests.journal, waiting, send, schedule, make_room)
        progress = replace(
            progress,
            cells=progress.cells + cells,
            messages=progress.messages + messages,
            ended=done == len(order),
        )
        waiting, cells = [], 0
        yield progress


def _nothing_sent(population: Population, options: EmissionOptions) -> EpochProgress:
    fresh, scope = population.items[population.fresh], options.scope
    return EpochProgress(
        devices=0,
        total=len(population.devices),
        cells=0,
        messages=0,
        ratings=0,
        outside=0 if scope is None else int(np.count_nonzero(~np.isin(fresh, scope))),
        over=0,
        idle=0,
        ended=False,
        repeated=population.rows - len(fresh),
        unreadable=population.unreadable,
    )


def _reports(requests: EpochRequests, rows: list[NDArray[np.int64]]) -> int:
    """Return how many reports the epoch has at most: the pace spreads the devices over them."""
    scope, sample = requests.options.scope, requests.options.sample
    if scope is None:
        return sum(map(len, rows))
    width = len(scope) if sample is None else min(len(scope), sample.reports)
    return width * len(rows)


@dataclass(frozen=True)
class Schedule:
    """When the devices of one epoch send: at their fraction of the time that all reports take."""

    pace: Pace
    started: float
    reports: int

    def wait(self, fraction: float) -> None:
        """Pause until the moment of a device."""
        self.pace.wait(self.started, fraction * self.reports)


def _send(
    journal: Journal,
    waiting: list[tuple[float, Request]],
    send: Callable[[Message], None],
    schedule: Schedule,
    make_room: Callable[[], None] | None,
) -> int:
    """Record the requests of some devices, then send each at its moment; return the messages."""
    if not waiting:
        return 0
    messages = commit_when_room(journal, [request for _, request in waiting], None, make_room)
    given_out = iter(messages)
    for fraction, request in waiting:
        schedule.wait(fraction)
        for _ in request.parts:
            send(next(given_out))
    return len(messages)

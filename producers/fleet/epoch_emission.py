"""The end of an epoch: all enrolled accounts report, so that sending says nothing about rating.

    presence protected   every item of the public scope, once: its level if rated, else "missing";
                         all cells are sent, whatever was drawn; with a budget for the whole user,
                         only the items that the device's own key picks from the scope, the same
                         whatever was rated (`item_sampling.ItemSample`), and at most
                         `ItemSample.reports` in the device's life, however the scope changes
    value protected      the ratings that are new in this epoch; which and how many is public

    cells of a device, shuffled --> ceil(n / 4096) messages of nearly equal size
    devices in the order of  h(pseudonym, epoch),  each at h / 2^64 of the available time

Where presence is protected, number, order, size and time of messages are functions of the scope,
the enrolled accounts, their budgets and the epoch alone: an observer who knows those learns nothing
from them. An account reports from the first epoch after it enrolled until it is withdrawn, with or
without ratings: were it silent without any, its first message would reveal its first rating. A cell
is drawn once in a life (the journal's reported keys), so a rating that comes after its cell's turn
is not reported. Messages sent at the moment of rating (`producers.fleet.replay`) reveal which users
are active, when and how much. An interrupted run leaves the rest of its messages to the next run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import blake2b

import numpy as np

from producers.device import requests as device
from producers.device.rating import Rated, check_levels_agree
from producers.fleet.epoch_requests import EmissionOptions, EpochRequests
from producers.fleet.population import Population, PopulationRatings
from producers.fleet.replay import commit_when_room
from producers.journal import Journal, Message, PersonBudget, Request
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.privacy_map import Adjacency
from stream_app.privacy.ratings.item_sampling import ItemSample

_PERSON = b"murmurec epoch"  # separates this hash from every other use of blake2b


@dataclass(frozen=True)
class EpochProgress:
    """Progress of an epoch's end: accounts done of `total`, cells and messages sent.

    Rows of the data set: `ratings` are among the cells, `outside` are not in the scope, `before`
    were reported before, `unsampled` are of items outside the device's sample, `held` exceeded the
    budget, `early` are of accounts that enrolled in this epoch or do not take part, `repeated`
    occur twice, `unreadable` are off the scale. Their sum is the number of rows.
    Devices that sent nothing: `over` without enough budget, `idle` with all cells drawn before.
    """

    devices: int
    total: int
    cells: int = 0
    messages: int = 0
    ratings: int = 0
    outside: int = 0
    over: int = 0
    idle: int = 0
    before: int = 0
    unsampled: int = 0
    held: int = 0
    early: int = 0
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
    """End an epoch for all accounts of the journal: each reports once, `population` or not.

    With a sample every account must have the sample's budget, for life. Where the scope has grown,
    a device sends as many of its items as still fit the budget, in the order of its key.
    Raises ValueError for a mechanism, scope or sample that do not go together.
    """
    options = options or EmissionOptions()
    check_levels_agree(population.scale, reporting.mechanism)
    check_scope(reporting.mechanism, options)
    epoch = journal.epoch(epoch)
    # Where presence is public, who enrolled today may report today: a message hides nothing.
    accounts = journal.enrolled(epoch if options.scope is not None else None)
    devices = [account.device for account in accounts]
    check_sample(reporting.mechanism, options, journal, devices)
    requests = EpochRequests(PopulationRatings(population), reporting, journal, epoch, options)
    return _run(requests, population, devices, send, make_room)


def check_scope(mechanism: Mechanism, options: EmissionOptions) -> None:
    """Raise ValueError unless a scope is given exactly where presence is protected."""
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


def check_sample(
    mechanism: Mechanism, options: EmissionOptions, journal: Journal, devices: Sequence[bytes]
) -> None:
    """Raise ValueError where an account has other terms than the sample."""
    sample = options.sample
    if sample is None:
        return
    if options.scope is None or mechanism.epsilon != sample.epsilon:
        raise ValueError(
            f"mechanism {mechanism.id}: a sample of {sample.reports} items of a scope needs "
            f"epsilon {sample.epsilon} for each"
        )
    needed = sample_budget(sample)
    for device_id in devices:
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
    requests: EpochRequests,
    population: Population,
    devices: list[bytes],
    send: Callable[[Message], None],
    make_room: Callable[[], None] | None,
) -> Iterator[EpochProgress]:
    options, found = requests.options, [requests.ratings.rated(each) for each in devices]
    times = [emission_time(pseudonym, requests.epoch) for pseudonym in devices]
    order = sorted(range(len(devices)), key=lambda place: (times[place], devices[place]))
    started, reports = options.pace.clock(), _reports(options, found)
    progress = _nothing_sent(population, options, devices)
    waiting: list[tuple[float, Request]] = []
    cells = 0
    for done, place in enumerate(order, 1):
        device_id, rated = devices[place], found[place]
        left = requests.unreported(device_id, rated)
        keys = requests.affordable(device_id, left)
        before, unsampled, among = requests.counts(device_id, rated, left)
        sent = 0
        if len(keys):
            request, sent = requests.request(device_id, rated, keys)
            waiting.append((times[place], request))
            cells += request.count
        progress = replace(
            progress,
            devices=done,
            ratings=progress.ratings + sent,
            over=progress.over + (len(left) > 0 and not len(keys)),
            idle=progress.idle + (not len(left)),
            before=progress.before + before,
            unsampled=progress.unsampled + unsampled,
            held=progress.held + (among - sent),
        )
        if cells < options.cells and done < len(order):
            continue
        messages = _send(requests, waiting, send, (started, reports), make_room)
        progress = replace(
            progress,
            cells=progress.cells + cells,
            messages=progress.messages + messages,
        )
        waiting, cells = [], 0
        yield progress


def _nothing_sent(
    population: Population, options: EmissionOptions, devices: list[bytes]
) -> EpochProgress:
    fresh, scope = population.fresh, options.scope
    wanted = set(devices)
    places = [place for place, each in enumerate(population.devices) if each in wanted]
    taking_part = np.isin(population.users, places)
    fresh_items = population.items[fresh & taking_part]
    return EpochProgress(
        devices=0,
        total=len(devices),
        outside=0 if scope is None else int(np.count_nonzero(~np.isin(fresh_items, scope))),
        early=int(np.count_nonzero(fresh & ~taking_part)),
        repeated=population.rows - int(np.count_nonzero(fresh)),
        unreadable=population.unreadable,
    )


def _reports(options: EmissionOptions, found: list[Rated]) -> int:
    """Return how many reports the epoch has at most: the pace spreads the devices over them."""
    scope, sample = options.scope, options.sample
    if scope is None:
        return sum(len(rated.keys) for rated in found)
    width = len(scope) if sample is None else min(len(scope), sample.reports)
    return width * len(found)


def _send(
    requests: EpochRequests,
    waiting: list[tuple[float, Request]],
    send: Callable[[Message], None],
    span: tuple[float, int],
    make_room: Callable[[], None] | None,
) -> int:
    """Record the requests of some devices, then send each at its moment: its fraction of the time
    that all reports of the `span` (start, reports) take; return the messages."""
    if not waiting:
        return 0
    asked = [request for _, request in waiting]
    messages = commit_when_room(requests.journal, asked, None, make_room)
    given_out = iter(messages)
    for fraction, request in waiting:
        requests.options.pace.wait(span[0], fraction * span[1])
        for _ in request.parts:
            send(next(given_out))
    return len(messages)

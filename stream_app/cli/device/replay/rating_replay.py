"""One run of `murmurec replay` over a population of devices.

The largest spending is known before any noise is drawn:

    reports of a user  = cells not yet reported, as many as the budget allows
    whole of a user    = spent before + reports * epsilon

The most reports, the largest spending before and the largest spending after may belong to three
users; the epsilons of different users are not added.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from producers.datasets.load import Dataset, load
from producers.device import scope
from producers.device.pinned_scope import pin, read_scope
from producers.device.requests import ReportSettings
from producers.fleet.epoch_emission import EpochProgress, emit
from producers.fleet.epoch_requests import EmissionOptions
from producers.fleet.population import Population, runs
from producers.fleet.replay import Pace, ReplayOptions, ReplayProgress, replay
from producers.identities import Identities
from producers.journal import NANO, FinishedBefore, Journal, PersonBudget
from producers.publishing import Publisher
from stream_app.cli.catalogue_titles import recommendable
from stream_app.cli.device import simulated_population as simulation
from stream_app.cli.device import wording
from stream_app.cli.device.mechanism_options import allowed, hides_presence, simulation_path, today
from stream_app.cli.device.publishers import check_copies, item_table_for, publisher_for
from stream_app.cli.device.simulated_population import Sending
from stream_app.cli.options import connection_from
from stream_app.cli.output import notice, plural, refusing, show, status
from stream_app.errors import UserError
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.ratings.item_sampling import ItemSample
from stream_app.settings import Settings

if TYPE_CHECKING:
    from stream_app.cli.device.replay import ReplayCommandOptions


_ANY_SIZE = 2**31  # items of a scope: what a simulation spends, its budget limits


def replay_file(options: ReplayCommandOptions, settings: Settings, *, as_json: bool) -> None:
    """Publish a file of ratings and print the outcome; raises UserError if an event failed."""
    with status(f"reading {options.file}"):
        dataset = load(options.file, options.scale)
    mechanism = allowed(options.mechanism_on(dataset.scale), settings)
    path, sample = simulation_path(settings, options.journal), options.sample
    publisher = publisher_for(settings, per_account=options.producer_per_account)
    epoch = today()
    items, digest = _scope(options, settings, epoch) if hides_presence(mechanism) else (None, b"")
    table = item_table_for(mechanism, settings)
    with Journal.open(path, limits=options.limits, test=options.test) as journal:
        journal.check_kind(simulated=True)
        if options.scope is not None:
            pin(journal, options.scope, digest, options.accept_scope)
        identities = Identities(journal.key, signed=settings.signed)
        reporting = ReportSettings(publisher.topic, mechanism, table, identities=identities)
        for sentence in wording.journal_notices(journal):
            notice(sentence)
        population = simulation.population_of(dataset, journal, identities)
        notice(simulation.enrolled_population(journal, population.devices, options.budget, epoch))
        check_copies(settings, [journal], trusted=options.trust_journal)
        with status("adding up what this run spends"):
            price = cost(
                population,
                journal,
                mechanism,
                journal.epoch(epoch),
                items,
                sample,
                republish=options.republish,
                ended=options.by_epoch,
            )
        price.check(options.budget)
        found = (f"warning: {each}" for each in data_warnings(dataset, population.items, items))
        for sentence in (*_notices(options, dataset, mechanism, price), *found):
            notice(sentence)
        run = ReplayRun(
            journal,
            publisher,
            reporting,
            population,
            options.pace,
            epoch,
            options.republish,
        )
        with refusing(UserError):
            outcome = run.epoch(items, sample) if options.by_epoch else run.immediate(options.limit)
    show(outcome.row, outcome.sentences, as_json=as_json)
    simulation.check_delivered(publisher, "event", "the next publish or replay")


def _scope(
    options: ReplayCommandOptions, settings: Settings, epoch: int
) -> tuple[NDArray[np.uint64], bytes]:
    """Return the public items to report on in this epoch, and the digest of their file."""
    if options.scope is not None:
        items, digest = read_scope(options.scope, _ANY_SIZE)
    else:
        items, digest = recommendable(connection_from(settings), settings.topic_prefix), b""
    return scope.turn(items, epoch, options.rotate_every, settings.hash_seed), digest


def _notices(
    options: ReplayCommandOptions, dataset: Dataset, mechanism: Mechanism, price: Cost
) -> Iterator[str]:
    """Yield what is protected, public and spent, before the first event is sent."""
    yield f"{dataset.name}: {plural(len(dataset), 'rating')} on {dataset.scale}"
    if options.scale is None:
        yield (
            f"scale      {dataset.scale}, found in the ratings: it is public with every "
            "report; --scale states it"
        )
    public = wording.PUBLIC
    if hides_presence(mechanism):
        sample = options.sample
        public = wording.PUBLIC_SCOPE if sample is None else wording.public_sample(sample.reports)
    yield f"protected  {wording.protection_claim(mechanism)}"
    yield f"public     {public}"
    yield f"sent       {wording.AT_THE_END if options.by_epoch else wording.AT_ONCE}"
    yield f"in sum     {wording.spending_claim(mechanism, price.most, price.before)}"
    for warning in wording.warnings(mechanism, price.most, price.whole):
        yield f"warning: {warning}"


def data_warnings(
    dataset: Dataset, keys: NDArray[np.uint64], scope: NDArray[np.uint64] | None
) -> Iterator[str]:
    """Yield the warnings about a file of ratings before it is published."""
    yield from dataset.warnings
    if dataset.refused:
        yield (
            f"{plural(dataset.refused, 'row')} unreadable or off the scale, not published; the "
            "published rows are thereby known to be on the scale"
        )
    if scope is not None and not np.isin(scope, keys).any():
        yield (
            "no item of the scope was rated: every report is drawn from a missing rating; are the "
            "ids of --scope those of the file?"
        )


@dataclass(frozen=True)
class ReplayRun:
    """One run over a population, immediate or by epoch."""

    journal: Journal
    publisher: Publisher
    reporting: ReportSettings
    population: Population
    pace: Pace
    epoch_number: int
    republish: bool

    def immediate(self, limit: int | None) -> ReplayOutcome:
        """Publish every rating in time order, from where an earlier run stopped."""
        mechanism = self.reporting.mechanism.id
        held_back = 0 if self.republish else self.journal.held_back(self.population.digest)
        with simulation.sending(self.journal, self.publisher, "event") as sent:
            try:
                steps = replay(
                    self.population,
                    self.reporting,
                    journal=self.journal,
                    send=sent.relay.send,
                    epoch=self.epoch_number,
                    options=ReplayOptions(self.pace, limit, self.republish),
                    make_room=sent.relay.make_room,
                )
            except FinishedBefore:
                if not sent.left:
                    raise
                # All rows were recorded before; this run has published the remaining events.
                self.publisher.close()
                rows = self.population.rows
                last = ReplayProgress(0, 0, 0, 0, rows, 0)
                return of_immediate_run(last, sent, mechanism)
            if held_back:
                notice(
                    f"{plural(held_back, 'row')} over budget when this data set was published: all "
                    "rows are read again, published ones are skipped"
                )
            last = simulation.last_step(steps, "published", lambda step: (step.rows, step.total))
        return of_immediate_run(last, sent, mechanism)

    def epoch(
        self, scope: NDArray[np.uint64] | None, sample: ItemSample | None = None
    ) -> ReplayOutcome:
        """Publish the reports of every device for the ending epoch."""
        with simulation.sending(self.journal, self.publisher, "event") as sent:
            steps = emit(
                self.population,
                self.reporting,
                journal=self.journal,
                send=sent.relay.send,
                epoch=self.epoch_number,
                options=EmissionOptions(scope, sample, self.pace, self.republish),
                make_room=sent.relay.make_room,
            )
            last = simulation.last_step(steps, "devices", lambda step: (step.devices, step.total))
        return of_epoch_run(last, sent, self.reporting.mechanism.id)


@dataclass(frozen=True)
class Cost:
    """The largest number of reports of one user in this run, the largest spend before it and after
    it; `cells` is the size of a scope that no device has the budget for, else 0."""

    most: int
    before: Fraction
    whole: Fraction
    cells: int
    epsilon: Fraction | None

    def check(self, budget: PersonBudget) -> None:
        """Refuse a budget under which no device can report."""
        if not self.cells or self.epsilon is None or budget.epsilon is None:
            return
        raise UserError(
            f"--budget {float(budget.epsilon):g} is too small for the whole scope: "
            f"{self.cells} items at {self.epsilon} each; give a larger --budget, or --sample "
            f"{float(budget.epsilon):g} to report on a few of its items"
        )


def cost(
    population: Population,
    journal: Journal,
    mechanism: Mechanism,
    epoch: int,
    scope: NDArray[np.uint64] | None,
    sample: ItemSample | None,
    *,
    republish: bool,
    ended: bool,
) -> Cost:
    """Return the largest spending of a run."""
    all_or_nothing = ended and sample is None
    most, before, whole, cells = 0, Fraction(0), Fraction(0), 0
    for device, keys in _cells(population, scope):
        left = len(keys) if republish else int(np.count_nonzero(journal.unreported(device, keys)))
        if sample is not None:
            left = min(left, sample.reports)
        cells = max(cells, left)
        room = journal.room(device, mechanism, epoch)
        if room is not None and room < left:
            left = 0 if all_or_nothing else room
        nano = sum(s.nano for kind, s in journal.spent(device).items() if kind != "nothing")
        earlier = Fraction(nano, NANO)
        most, before = max(most, left), max(before, earlier)
        whole = max(whole, earlier + left * (mechanism.epsilon or 0))
    unaffordable = scope is not None and all_or_nothing and not most
    return Cost(most, before, whole, cells if unaffordable else 0, mechanism.epsilon)


def _cells(
    population: Population, scope: NDArray[np.uint64] | None
) -> Iterator[tuple[bytes, NDArray[np.uint64]]]:
    """Yield every device with the keys of the items that it may report on."""
    if scope is not None:
        yield from ((device, scope) for device in population.devices)
        return
    rows = np.flatnonzero(population.fresh)
    rows = rows[np.argsort(population.users[rows], kind="stable")]
    owners, heads = runs(population.users[rows])
    parts = np.split(population.items[rows], heads[1:])
    for owner, keys in zip(owners.tolist(), parts, strict=True):
        yield population.devices[owner], keys


# The field of a progress -> its name in JSON.
_IMMEDIATE = {
    **{name: name for name in ("rows", "published", "refused")},
    **{"before": "published_before", "over": "over_budget"},
    **{name: name for name in ("repeated", "unreadable", "skipped")},
}
_EPOCH = {
    **{"total": "devices", "cells": "reports", "ratings": "ratings", "outside": "outside_scope"},
    **{"before": "published_before", "unsampled": "not_sampled", "held": "ratings_over_budget"},
    **{"early": "not_taking_part", "repeated": "repeated", "unreadable": "unreadable"},
    **{"idle": "idle", "over": "over_budget"},
}


@dataclass(frozen=True)
class ReplayOutcome:
    """The result of a run: sentences, and the same figures as a row of JSON."""

    row: dict[str, Any]
    sentences: list[str]


def of_immediate_run(last: ReplayProgress, sent: Sending, mechanism: str) -> ReplayOutcome:
    """Return the outcome of a run that published each rating by itself, or, with a `total` of 0,
    only the events of an earlier run."""
    row = {shown: getattr(last, name) for name, shown in _IMMEDIATE.items()}
    sentences = [
        *_refusals(last),
        sent.sentence(mechanism),
        f"rows {last.rows} = published {last.published} + refused {last.refused}",
    ]
    return ReplayOutcome({**row, **sent.row(mechanism)}, sentences)


def _refusals(last: ReplayProgress) -> Iterator[str]:
    if last.skipped and not last.total:
        yield "every row was recorded by an earlier run; its remaining events are published"
    elif last.skipped:
        yield f"continued after {plural(last.skipped, 'row')} of an earlier run"
    if last.before:
        yield (
            f"{last.before} of the refused were published before: --republish publishes all rows "
            "again and spends their epsilon again"
        )
    if last.over:
        yield (
            f"{last.over} of the refused are over the budget of their user: a larger --budget "
            "publishes them"
        )
    if last.repeated:
        yield f"{last.repeated} of the refused repeat a rating of the data set"
    if last.unreadable:
        yield f"{last.unreadable} of the refused are unreadable or off the scale"


def of_epoch_run(last: EpochProgress, sent: Sending, mechanism: str) -> ReplayOutcome:
    """Return the outcome of a run that published the reports of a whole epoch."""
    row = {shown: getattr(last, name) for name, shown in _EPOCH.items()}
    reporting = last.total - last.over - last.idle
    sentences = [
        f"{plural(last.cells, 'report')} of {plural(reporting, 'device')}; {last.ratings} of them "
        "on ratings, a number that is shown only on this device",
        *_unreported(last),
    ]
    if last.idle:
        sentences.append(
            f"{plural(last.idle, 'device')} had nothing left to report: --republish reports again"
        )
    if last.over:
        sentences.append(f"{plural(last.over, 'device')} over the budget of their user")
    sentences.append(sent.sentence(mechanism))
    return ReplayOutcome({**row, **sent.row(mechanism)}, sentences)


def _unreported(last: EpochProgress) -> Iterator[str]:
    for count, reason in (
        (last.outside, "items outside the scope: never reported"),
        (last.before, "cells that were reported before"),
        (last.unsampled, "items outside the device's sample"),
        (last.held, "users who are over budget"),
        (last.early, "accounts that report from the next epoch on, or were withdrawn"),
        (last.repeated, "cells that occur twice in the data set"),
        (last.unreadable, "values that are unreadable or off the scale"),
    ):
        if count:
            yield f"{plural(count, 'rating')} of {reason}"

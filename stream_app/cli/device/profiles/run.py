"""One run of `murmurec profiles publish` over a population, and its outcome."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from producers.datasets.load import load
from producers.device import scope as public_items
from producers.fleet.population import Population, populate
from producers.fleet.profile_release import ProfileOptions, ProfileProgress, profiles_of, publish
from producers.identities import Identities
from producers.journal import Journal, Limits, PersonBudget
from producers.publishing import OutboxRelay, Publisher
from producers.scale import Scale
from producers.siblings import check_only_journal
from stream_app.cli.device.connections import profile_publisher_for
from stream_app.cli.device.population import enrolled_population
from stream_app.cli.device.profiles.wording import profile_notices
from stream_app.cli.device.wording import journal_notices
from stream_app.cli.output import notice, plural, print_json, progress, say
from stream_app.errors import UserError
from stream_app.privacy.profiles.mechanism import ProfileMechanism
from stream_app.settings import Settings
from stream_app.wire import EPOCH_SECONDS


@dataclass(frozen=True)
class ProfileCommandOptions:
    """The data, mechanism and accounts of a run; `scope`: a file of public items, `budget`: that of
    each user who is not enrolled."""

    file: Path
    scale: Scale | None
    mechanism: ProfileMechanism
    scope: Path | None
    budget: PersonBudget
    limits: Limits
    journal: Path
    test: bool


@dataclass(frozen=True)
class ProfileOutcome:
    """The result of a run: sentences, and the same figures as a row of JSON."""

    row: dict[str, Any]
    sentences: list[str]


def publish_file(options: ProfileCommandOptions, settings: Settings, *, as_json: bool) -> None:
    """Publish the profiles of a file's users and print the outcome."""
    dataset = load(options.file, options.scale)
    items = None if options.scope is None else public_items.from_file(options.scope)
    publisher = profile_publisher_for(settings)
    with Journal.open(options.journal, limits=options.limits, test=options.test) as journal:
        identities = Identities(journal.key, signed=settings.signed)
        population = populate(dataset, journal.key, identities)
        users = set(dataset.users.tolist())
        identities.check_journal(journal, users)
        check_only_journal(journal, users)
        notices = profile_notices(options.mechanism, population.most)
        for sentence in (*journal_notices(journal), *notices):
            notice(sentence)
        notice(enrolled_population(journal, population.devices, options.budget, _today()))
        try:
            outcome = ProfileRun(journal, publisher, options.mechanism, items).publish(population)
        except ValueError as error:
            raise UserError(str(error)) from None
    if as_json:
        print_json(outcome.row)
    else:
        for sentence in outcome.sentences:
            say(sentence)
    if publisher.failed:
        raise UserError(
            f"{publisher.failed} of {publisher.sent} profiles were not accepted: "
            f"{publisher.first_error}; they are kept in the journal, and the next publish sends "
            "the same bytes"
        )


@dataclass(frozen=True)
class ProfileRun:
    """One run; `scope`: the public items that a profile may hold, None for all items."""

    journal: Journal
    publisher: Publisher
    mechanism: ProfileMechanism
    scope: NDArray[np.uint64] | None

    def publish(self, population: Population) -> ProfileOutcome:
        """Publish the events of an earlier run, then every profile; wait for delivery."""
        began, relay = time.monotonic(), OutboxRelay(self.journal, self.publisher)
        with self.publisher:
            left, _ = relay.resend({self.publisher.topic})
            if left:
                notice(f"sending {plural(left, 'profile')} of an earlier run again, same bytes")
            steps = publish(
                profiles_of(population, self.journal.enrolled()),
                self.mechanism,
                journal=self.journal,
                send=relay.send,
                topic=self.publisher.topic,
                epoch=_today(),
                options=ProfileOptions(self.scope),
                make_room=relay.make_room,
            )
            last = _last(steps)
        return self._outcome(last, left, time.monotonic() - began)

    def _outcome(self, last: ProfileProgress, left: int, seconds: float) -> ProfileOutcome:
        publisher = self.publisher
        row = {
            "devices": last.total,
            "published": last.published,
            "published_before": last.before,
            "over_budget": last.over,
            "outside_scope": last.outside,
            "capped": last.capped,
            "events_accepted": publisher.accepted,
            "events_failed": publisher.failed,
            "events_left_before": left,
            "seconds": round(seconds, 3),
            "mechanism": self.mechanism.id,
        }
        sentences = []
        if last.before:
            sentences.append(
                f"{plural(last.before, 'device')} had released a profile in this epoch"
            )
        if last.over:
            sentences.append(f"{plural(last.over, 'device')} over the budget of the whole person")
        if last.outside:
            sentences.append(
                f"{plural(last.outside, 'item')} outside the scope: never in a profile"
            )
        if last.capped:
            sentences.append(
                f"{plural(last.capped, 'item')} left out by devices whose profile is full"
            )
        sentences.append(
            f"{plural(publisher.accepted, 'profile')} accepted, {publisher.failed} failed, "
            f"in {seconds:.1f} s under {self.mechanism.id}"
        )
        return ProfileOutcome(row, sentences)


def _today() -> int:
    return int(time.time()) // EPOCH_SECONDS


def _last(steps: Iterator[ProfileProgress]) -> ProfileProgress:
    """Return the last step, with a bar while they run."""
    last = None
    with progress("profiles") as advance:
        for last in steps:
            advance(last.done, last.total)
    if last is None:
        raise UserError("there is nothing to publish")
    return last

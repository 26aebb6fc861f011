"""A file of ratings played as a population: its devices, their enrolment, and the delivery."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from producers.datasets.load import Dataset
from producers.fleet.population import Population, populate
from producers.identities import Identities
from producers.journal import Journal, PersonBudget, Unwritable
from producers.publishing import OutboxRelay, Publisher
from producers.siblings import check_only_journal
from stream_app.cli.output import notice, plural, progress, status
from stream_app.errors import UserError


def population_of(dataset: Dataset, journal: Journal, identities: Identities) -> Population:
    """Return a device for every user of a file; refuses users whom another journal has."""
    with status(f"making a device for every user of {dataset.name}"):
        population = populate(dataset, journal.key, identities)
        users = set(dataset.users.tolist())
        identities.check_journal(journal, users)
        check_only_journal(journal, users, simulated=True)
    return population


def enrolled_population(
    journal: Journal, devices: Sequence[bytes], budget: PersonBudget, today: int
) -> str:
    """Enrol the devices of a population that are not enrolled; return the sentence that says so.

    The account of a person keeps its budget, whatever this command states. A simulated account with
    a smaller budget is raised to the stated one.
    """
    known = {device: journal.enrolment(device) for device in devices}
    new = [device for device, terms in known.items() if terms is None]
    own = sum(terms is not None and not terms.simulated for terms in known.values())
    smaller = [
        device
        for device, terms in known.items()
        if terms is not None and terms.simulated and _is_smaller(terms.budget, budget)
    ]
    # One less than today: an account reports from the first epoch after it enrolled, and a
    # simulation reports at once.
    journal.enrol(new, budget, max(0, journal.epoch(today) - 1), simulated=True)
    journal.raise_budget(smaller, budget.epsilon)
    stated = "without a limit" if not budget.limited else f"with a budget of {budget} each"
    parts = [f"enrolled   {plural(len(new), 'device')} as a simulation, {stated}"]
    if smaller:
        parts.append(f"{plural(len(smaller), 'device')} raised to it")
    if rest := len(known) - len(new) - len(smaller) - own:
        parts.append(f"{plural(rest, 'device')} enrolled before")
    if own:
        parts.append(f"{plural(own, 'account')} of a person, which keeps its own budget")
    return "; ".join(parts)


def _is_smaller(budget: PersonBudget, stated: PersonBudget) -> bool:
    return stated.nano is not None and budget.nano is not None and budget.nano < stated.nano


@dataclass(frozen=True)
class Sending:
    """The messages of a run on their way: `noun` names one, `left` are those of an earlier run."""

    relay: OutboxRelay
    noun: str
    left: int
    began: float

    @property
    def seconds(self) -> float:
        """The time since the run began."""
        return time.monotonic() - self.began

    def row(self, mechanism: str) -> dict[str, Any]:
        """Return the figures of the delivery as JSON names."""
        return {
            "events_accepted": self.relay.publisher.accepted,
            "events_failed": self.relay.publisher.failed,
            "events_left_before": self.left,
            "seconds": round(self.seconds, 3),
            "mechanism": mechanism,
        }

    def sentence(self, mechanism: str) -> str:
        """Return the figures of the delivery in words."""
        publisher = self.relay.publisher
        return (
            f"{plural(publisher.accepted, self.noun)} accepted, {publisher.failed} failed, "
            f"in {self.seconds:.1f} s under {mechanism}"
        )


@contextmanager
def sending(journal: Journal, publisher: Publisher, noun: str) -> Iterator[Sending]:
    """Send the messages of an earlier run, then those of the block; wait for delivery."""
    began, relay = time.monotonic(), OutboxRelay(journal, publisher)
    try:
        with publisher:
            left, others = relay.resend({publisher.topic})
            if left:
                notice(f"sending {plural(left, noun)} of an earlier run again, same bytes")
            if others:
                notice(f"{plural(others, 'event')} in the journal for other topics")
            yield Sending(relay, noun, left, began)
            with status("waiting for the broker"):
                publisher.close()
    except Unwritable as error:
        raise UserError(
            f"{error}; {plural(publisher.accepted, noun)} accepted before, none sent after; the "
            "same command continues from here"
        ) from None
    except KeyboardInterrupt:
        notice("stopped; the same command continues from here and sends the rest")
        raise


def check_delivered(publisher: Publisher, noun: str, again: str) -> None:
    """Raise UserError if a message was not accepted; `again`: what sends it again."""
    if publisher.failed:
        raise UserError(
            f"{publisher.failed} of {publisher.sent} {noun}s were not accepted: "
            f"{publisher.first_error}; they are kept in the journal, and {again} sends the same "
            "bytes"
        )


def last_step(steps: Iterator[Any], what: str, place: Callable[[Any], tuple[int, int]]) -> Any:
    """Return the last step and show a bar; `place` gives (done, total) of a step."""
    last = None
    with progress(what) as advance:
        for last in steps:
            advance(*place(last))
    if last is None:
        raise UserError("there is nothing to publish")
    return last

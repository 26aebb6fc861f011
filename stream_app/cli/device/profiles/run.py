"""One run of `murmurec profiles publish` over a population, and what is told of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from producers.fleet.population import Population
from producers.fleet.profile_release import ProfileOptions, ProfileProgress, profiles_of, publish
from producers.journal import Journal
from producers.publishing import OutboxRelay, Publisher
from stream_app.errors import UserError
from stream_app.privacy.profiles.mechanism import ProfileMechanism
from stream_app.wire import EPOCH_SECONDS


@dataclass(frozen=True)
class ProfileOutcome:
    """What a run ended with: words for people, the same as a row of JSON."""

    row: dict[str, Any]
    told: list[str]


@dataclass(frozen=True)
class ProfileRun:
    """One run; `scope` are the public items that a profile may hold, None for all there are."""

    journal: Journal
    publisher: Publisher
    mechanism: ProfileMechanism
    scope: NDArray[np.uint64] | None

    def publish(self, population: Population) -> ProfileOutcome:
        """Send what an earlier run has left, then every profile; wait for their fate."""
        began, courier = time.monotonic(), OutboxRelay(self.journal, self.publisher)
        with self.publisher:
            left, _ = courier.resend({self.publisher.topic})
            if left:
                say(f"sending {left} profiles again that an earlier run has left, same bytes")
            steps = publish(
                profiles_of(population),
                self.mechanism,
                journal=self.journal,
                send=courier.send,
                topic=self.publisher.topic,
                epoch=int(time.time()) // EPOCH_SECONDS,
                options=ProfileOptions(self.scope),
                make_room=courier.make_room,
            )
            last = _last(steps)
        return self._outcome(last, left, time.monotonic() - began)

    def _outcome(self, last: ProfileProgress, left: int, seconds: float) -> ProfileOutcome:
        line = self.publisher
        row = {
            "devices": last.total,
            "published": last.published,
            "published_before": last.before,
            "over_budget": last.over,
            "outside_scope": last.outside,
            "capped": last.capped,
            "events_accepted": line.accepted,
            "events_failed": line.failed,
            "events_left_before": left,
            "seconds": round(seconds, 3),
            "mechanism": self.mechanism.id,
        }
        told = []
        if last.before:
            told.append(f"{last.before} devices have released a profile in this epoch already")
        if last.over:
            limits = self.journal.limits
            delta = "no limit" if limits.delta is None else f"{limits.delta} in all"
            told.append(f"{last.over} devices are over budget ({limits} per user; delta: {delta})")
        if last.outside:
            told.append(f"{last.outside} items are not in the scope: never in a profile")
        if last.capped:
            told.append(f"{last.capped} items are not among those that their device keeps to")
        told.append(
            f"{line.accepted} profiles accepted, {line.failed} failed, in {seconds:.1f} s "
            f"under {self.mechanism.id}"
        )
        return ProfileOutcome(row, told)


def _last(steps: Iterator[ProfileProgress]) -> ProfileProgress:
    """Return the last step, with a bar on a terminal and nothing elsewhere."""
    console, last = Console(stderr=True), None
    columns = (TextColumn("profiles"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("profiles", total=None)
        for last in steps:
            bar.update(task, completed=last.done, total=last.total)
    if last is None:
        raise UserError("there was nothing to publish")
    return last


def say(sentence: str) -> None:
    """Tell it beside the output, where a pipe does not see it."""
    print(sentence, file=sys.stderr)

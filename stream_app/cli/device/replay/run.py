"""One run of `murmurec replay` over a population, and what is told of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from producers.device.requests import ReportSettings
from producers.fleet.epoch_emission import EpochProgress, emit
from producers.fleet.epoch_requests import EmissionOptions
from producers.fleet.population import Population
from producers.fleet.replay import Pace, ReplayOptions, ReplayProgress, replay
from producers.journal import FinishedBefore, Journal, Unwritable
from producers.publishing import OutboxRelay, Publisher
from stream_app.errors import UserError
from stream_app.privacy.ratings.item_sampling import ItemSample

_REASONS = ("published_before", "over_budget", "repeated", "unreadable")


@dataclass(frozen=True)
class ReplayOutcome:
    """What a run ended with: words for people, the same as a row of JSON."""

    row: dict[str, Any]
    told: list[str]


@dataclass(frozen=True)
class ReplayRun:
    """One run over a population, by either way of sending."""

    journal: Journal
    publisher: Publisher
    line: ReportSettings
    population: Population
    pace: Pace
    today: int
    republish: bool

    def immediate(self, limit: int | None) -> ReplayOutcome:
        """Send every rating in time order, going on where an earlier run was."""
        began = time.monotonic()
        held_back = 0 if self.republish else self.journal.held_back(self.population.digest)
        with self._sending() as (courier, left):
            try:
                steps = replay(
                    self.population,
                    self.line,
                    journal=self.journal,
                    send=courier.send,
                    epoch=self.today,
                    options=ReplayOptions(self.pace, limit, self.republish),
                    make_room=courier.make_room,
                )
            except FinishedBefore:
                if not left:
                    raise
                # All rows were recorded before: sending what had been left was this run's work.
                return self._nothing_new(left, began)
            if held_back:
                say(
                    f"{held_back} rows were over budget when this data set was published: it is "
                    "gone through again, what was published is passed over"
                )
            last = _last(_shown(steps, "published", lambda step: (step.rows, step.total)))
        return self._published(last, left, time.monotonic() - began)

    def epoch(
        self, scope: NDArray[np.uint64] | None, sample: ItemSample | None = None
    ) -> ReplayOutcome:
        """End the epoch for every device."""
        began = time.monotonic()
        with self._sending() as (courier, left):
            steps = emit(
                self.population,
                self.line,
                journal=self.journal,
                send=courier.send,
                epoch=self.today,
                options=EmissionOptions(scope, sample, self.pace, self.republish),
                make_room=courier.make_room,
            )
            last = _last(_shown(steps, "devices", lambda step: (step.devices, step.total)))
        return self._emitted(last, left, time.monotonic() - began)

    @contextmanager
    def _sending(self) -> Iterator[tuple[OutboxRelay, int]]:
        """Send what an earlier run has left, then what the block gives out; wait for its fate."""
        courier = OutboxRelay(self.journal, self.publisher)
        try:
            with self.publisher:
                left, others = courier.resend({self.publisher.topic})
                if left:
                    say(f"sending {left} events again that an earlier run has left, same bytes")
                if others:
                    say(f"{others} events wait in the journal for other topics")
                yield courier, left
                with status_line("waiting for the broker"):
                    self.publisher.close()
        except Unwritable as error:
            raise UserError(
                f"{error}; {self.publisher.accepted} events were accepted before and nothing was "
                "sent after; the same command goes on from here"
            ) from None
        except KeyboardInterrupt:
            say("stopped; the same command goes on from here and sends what was not sent")
            raise

    def _base(self, left: int, seconds: float) -> dict[str, Any]:
        return {
            "events_accepted": self.publisher.accepted,
            "events_failed": self.publisher.failed,
            "events_left_before": left,
            "seconds": round(seconds, 3),
            "mechanism": self.line.mechanism.id,
        }

    def _events(self, seconds: float) -> str:
        return (
            f"{self.publisher.accepted} events accepted, {self.publisher.failed} failed, "
            f"in {seconds:.1f} s under {self.line.mechanism.id}"
        )

    def _nothing_new(self, left: int, began: float) -> ReplayOutcome:
        self.publisher.close()
        seconds = time.monotonic() - began
        row = dict.fromkeys(("rows", "published", "refused", *_REASONS), 0)
        return ReplayOutcome(
            {**row, "skipped": self.population.rows, **self._base(left, seconds)},
            [
                "every row was recorded by an earlier run; what it had left is sent",
                self._events(seconds),
                "rows 0 = published 0 + refused 0",
            ],
        )

    def _published(self, last: ReplayProgress, left: int, seconds: float) -> ReplayOutcome:
        told = []
        if last.skipped:
            told.append(f"went on after {last.skipped} rows of an earlier run")
        if last.before:
            told.append(
                f"{last.before} of the refused were published before: --again publishes all rows "
                "anew and spends their epsilon again"
            )
        if last.over:
            told.append(
                f"{last.over} of the refused are over budget ({self.journal.limits} per user): a "
                "larger --budget publishes them"
            )
        if last.repeated:
            told.append(f"{last.repeated} of the refused repeat a rating of the data set")
        if last.unreadable:
            told.append(f"{last.unreadable} of the refused are unreadable or off the scale")
        told.append(self._events(seconds))
        told.append(f"rows {last.rows} = published {last.published} + refused {last.refused}")
        row = {
            "rows": last.rows,
            "published": last.published,
            "refused": last.refused,
            **dict(
                zip(
                    _REASONS,
                    (last.before, last.over, last.repeated, last.unreadable),
                    strict=True,
                )
            ),
            "skipped": last.skipped,
        }
        return ReplayOutcome({**row, **self._base(left, seconds)}, told)

    def _emitted(self, last: EpochProgress, left: int, seconds: float) -> ReplayOutcome:
        told = [
            f"{last.cells} reports of {last.total - last.over - last.idle} devices; "
            f"{last.ratings} of them on ratings, which is told here and to nobody else"
        ]
        if last.outside:
            told.append(
                f"{last.outside} ratings are of items that are not in scope: never reported"
            )
        for count, why in (
            (last.before, "were reported on before"),
            (last.unsampled, "are of items that the key of their device has not picked"),
            (last.held, "are over budget"),
            (last.repeated, "repeat a rating of the data set"),
            (last.unreadable, "are unreadable or off the scale"),
        ):
            if count:
                told.append(f"{count} ratings {why}")
        if last.idle:
            told.append(f"{last.idle} devices had nothing left to report: --again reports anew")
        if last.over:
            told.append(f"{last.over} devices are over budget ({self.journal.limits} per user)")
        told.append(self._events(seconds))
        row = {
            "devices": last.total,
            "reports": last.cells,
            "ratings": last.ratings,
            "outside_scope": last.outside,
            "published_before": last.before,
            "not_sampled": last.unsampled,
            "ratings_over_budget": last.held,
            "repeated": last.repeated,
            "unreadable": last.unreadable,
            "idle": last.idle,
            "over_budget": last.over,
        }
        return ReplayOutcome({**row, **self._base(left, seconds)}, told)


def _last(steps: Iterator[Any]) -> Any:
    last = None
    for step in steps:
        last = step
    if last is None:
        raise UserError("there was nothing to publish")
    return last


def _shown(
    steps: Iterator[Any], word: str, place: Callable[[Any], tuple[int, int]]
) -> Iterator[Any]:
    """Pass the progress on, with a bar on a terminal and nothing elsewhere."""
    console = Console(stderr=True)
    columns = (TextColumn(word), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(word, total=None)
        for step in steps:
            done, total = place(step)
            bar.update(task, completed=done, total=total)
            yield step


@contextmanager
def status_line(sentence: str) -> Iterator[None]:
    """Show on a terminal what takes a while."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(sentence):
        yield


def say(sentence: str) -> None:
    """Tell it beside the output, where a pipe does not see it."""
    print(sentence, file=sys.stderr)

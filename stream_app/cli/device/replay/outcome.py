"""The result of a run of `murmurec replay`, as sentences and as a row of JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from producers.fleet.epoch_emission import EpochProgress
from producers.fleet.replay import ReplayProgress
from stream_app.cli.output import plural

_ROW = (
    *("rows", "published", "refused"),
    *("published_before", "over_budget", "repeated", "unreadable"),
)


@dataclass(frozen=True)
class ReplayOutcome:
    """The result of a run: sentences, and the same figures as a row of JSON."""

    row: dict[str, Any]
    sentences: list[str]


@dataclass(frozen=True)
class Delivery:
    """Delivery of the events; `left`: events of an earlier run, published again."""

    accepted: int
    failed: int
    left: int
    seconds: float
    mechanism: str

    @property
    def row(self) -> dict[str, Any]:
        """The figures as JSON names."""
        return {
            "events_accepted": self.accepted,
            "events_failed": self.failed,
            "events_left_before": self.left,
            "seconds": round(self.seconds, 3),
            "mechanism": self.mechanism,
        }

    @property
    def sentence(self) -> str:
        """The figures in words."""
        return (
            f"{plural(self.accepted, 'event')} accepted, {self.failed} failed, "
            f"in {self.seconds:.1f} s under {self.mechanism}"
        )


def of_finished_run(rows: int, delivery: Delivery) -> ReplayOutcome:
    """Return the outcome of a run that only published the events of an earlier run."""
    return ReplayOutcome(
        {**dict.fromkeys(_ROW, 0), "skipped": rows, **delivery.row},
        [
            "every row was recorded by an earlier run; its remaining events are published",
            delivery.sentence,
            "rows 0 = published 0 + refused 0",
        ],
    )


def of_immediate_run(last: ReplayProgress, delivery: Delivery) -> ReplayOutcome:
    """Return the outcome of a run that published each rating by itself."""
    row = {
        "rows": last.rows,
        "published": last.published,
        "refused": last.refused,
        "published_before": last.before,
        "over_budget": last.over,
        "repeated": last.repeated,
        "unreadable": last.unreadable,
        "skipped": last.skipped,
    }
    sentences = [
        *_refusals(last),
        delivery.sentence,
        f"rows {last.rows} = published {last.published} + refused {last.refused}",
    ]
    return ReplayOutcome({**row, **delivery.row}, sentences)


def _refusals(last: ReplayProgress) -> Iterator[str]:
    if last.skipped:
        yield f"continued after {plural(last.skipped, 'row')} of an earlier run"
    if last.before:
        yield (
            f"{last.before} of the refused were published before: --republish publishes all rows "
            "again and spends their epsilon again"
        )
    if last.over:
        yield (
            f"{last.over} of the refused are over the budget of their user: a larger --budget "
            "publishes them for a simulated one, murmurec device enrol --raise for a person"
        )
    if last.repeated:
        yield f"{last.repeated} of the refused repeat a rating of the data set"
    if last.unreadable:
        yield f"{last.unreadable} of the refused are unreadable or off the scale"


def of_epoch_run(last: EpochProgress, delivery: Delivery) -> ReplayOutcome:
    """Return the outcome of a run that published the reports of a whole epoch."""
    row = {
        "devices": last.total,
        "reports": last.cells,
        "ratings": last.ratings,
        "outside_scope": last.outside,
        "published_before": last.before,
        "not_sampled": last.unsampled,
        "ratings_over_budget": last.held,
        "not_taking_part": last.early,
        "repeated": last.repeated,
        "unreadable": last.unreadable,
        "idle": last.idle,
        "over_budget": last.over,
    }
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
    sentences.append(delivery.sentence)
    return ReplayOutcome({**row, **delivery.row}, sentences)


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

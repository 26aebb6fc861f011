"""The result of a run of `murmurec replay`, as sentences and as a row of JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from producers.fleet.epoch_emission import EpochProgress
from producers.fleet.replay import ReplayProgress
from stream_app.cli.device.simulated_population import Sending
from stream_app.cli.output import plural

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

"""Campaigns over the people of a file, for `evaluate --mode central|split`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from murmurec.campaigns import campaign_lists
from producers.datasets.descriptions import metadata_of
from producers.datasets.load import Dataset
from stream_app.cli import output
from stream_app.cli.device.mechanism_options import positive_fraction
from stream_app.cli.output import refusing
from stream_app.cli.research.evaluate.measure import with_dashes
from stream_app.cli.research.evaluate.rank import table_of_rows
from stream_app.errors import UsageError
from stream_app.evaluation.campaigns import CampaignLists, ListOptions

DEFAULT_EPSILON = "2"


class CampaignOptions(NamedTuple):
    """The options of a campaign; None where the command line leaves one out."""

    mode: str
    epsilon: str | None
    meta: bool
    k: int | None
    split: str | None
    scope: int | None
    seed: int


def refuse(mode: str, others: Mapping[str, object]) -> None:
    """Raise UsageError for an option that a campaign does not have."""
    for option, value in others.items():
        if value is not None:
            raise UsageError(f"{option}: a campaign ({mode}) has none; leave it out")


def measured(file: Path, dataset: Dataset, options: CampaignOptions) -> CampaignLists:
    """Measure and print the lists after a campaign."""
    wanted = ListOptions(
        10 if options.k is None else options.k, options.split or "user-time", options.scope
    )
    epsilon = positive_fraction("--epsilon", options.epsilon or DEFAULT_EPSILON)
    metadata = metadata_of(dataset.described, file) if options.meta else None
    with refusing(UsageError, with_dashes), output.progress("contributions") as advance:
        found = campaign_lists(
            dataset,
            options.mode,
            epsilon,
            wanted,
            metadata=metadata,
            seed=options.seed,
            progress=advance,
        )
    _show(found)
    return found


def _show(result: CampaignLists) -> None:
    """Print the figures of lists as a table."""
    features = "with public metadata" if result.meta else "without metadata"
    title = (
        f"lists of {result.k}, {result.split}, {result.users:,} users, scope {result.scope:,}, "
        f"{result.mode}, epsilon {result.epsilon:g} a person, {features}"
    )
    table_of_rows(result.rows, title)
    output.notice(
        f"{result.people:,} people, each protected whole: epsilon {result.epsilon:g}, delta "
        f"{result.delta:g}; {result.directions} directions of taste above the noise"
    )
    if result.directions < 3:
        output.notice("too few people for this epsilon: the lists are those of the prior")

"""Campaigns over time, for `evaluate --continual`: measured, and printed by form."""

from __future__ import annotations

from pathlib import Path

from producers.datasets.descriptions import metadata_of
from producers.datasets.load import Dataset
from research.continual import CampaignsOverTime
from research.continual.people import campaigns_over_time
from stream_app.cli import output
from stream_app.cli.device.mechanism_options import positive_fraction
from stream_app.cli.research.evaluate.campaign import DEFAULT_EPSILON, CampaignOptions
from stream_app.cli.research.evaluate.measure import with_dashes
from stream_app.errors import UsageError

_TITLES = {
    "again": "campaigns again and again",
    "running": "running sums",
    "item means": "items' true means",
}


def measured(file: Path, dataset: Dataset, options: CampaignOptions) -> CampaignsOverTime:
    """Measure the predictions over time while rounds go on."""
    epsilon = positive_fraction("--epsilon", options.epsilon or DEFAULT_EPSILON)
    metadata = metadata_of(dataset.described, file) if options.meta else None
    try:
        with output.progress("contributions") as advance:
            return campaigns_over_time(
                dataset,
                options.mode,
                epsilon,
                options.continual or 0,
                metadata=metadata,
                seed=options.seed,
                progress=advance,
            )
    except ValueError as error:
        raise UsageError(with_dashes(str(error))) from None


def show(result: CampaignsOverTime) -> None:
    """Print RMSE in each tenth of the ratings, and of the last fifth."""
    parts = len(result.forms[0].rmse)
    rows = [
        (f"{100 * part // parts} to {100 * (part + 1) // parts} %", *_cells(result, part))
        for part in range(parts)
    ]
    rows.append(("last fifth", *(f"{form.last_fifth:.4f}" for form in result.forms)))
    features = "with public metadata" if result.meta else "without metadata"
    output.table(
        ("part of the ratings", *(_TITLES[form.name] for form in result.forms)),
        rows,
        title=f"RMSE over time, {result.rounds} rounds, {result.mode}, epsilon "
        f"{result.epsilon:g} a person, {features}",
    )
    output.notice(
        f"{result.people:,} people, each protected whole over all rounds: epsilon "
        f"{result.epsilon:g}, delta {result.delta:g}; in which rounds a person takes part is public"
    )
    output.notice(
        "running sums are measured only; a deployment begins campaigns again (rounds begin)"
    )
    if result.rmse > result.rmse_baseline:
        output.notice(
            "warning: the items' true means predict the last fifth better; it needs more people, "
            "a larger --epsilon or fewer rounds"
        )


def _cells(result: CampaignsOverTime, part: int) -> list[str]:
    return [f"{form.rmse[part]:.4f}" for form in result.forms]

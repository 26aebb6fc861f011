"""Campaigns over the people of a file, for `evaluate --mode central|split`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from murmurec.campaigns import campaign_lists, campaign_stars
from producers.datasets.descriptions import metadata_of
from producers.datasets.load import Dataset
from stream_app.cli import output
from stream_app.cli.device.mechanism_options import positive_fraction
from stream_app.cli.output import refusing
from stream_app.cli.research.evaluate.measure import with_dashes
from stream_app.cli.research.evaluate.rank import table_of_rows
from stream_app.errors import UsageError
from stream_app.evaluation.campaigns import CampaignLists, CampaignStars, ListOptions

DEFAULT_EPSILON = "2"
_Result = TypeVar("_Result")


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


def measured(file: Path, dataset: Dataset, options: CampaignOptions, *, rank: bool) -> Any:
    """Measure and print what the options ask for: lists, or predicted ratings."""
    if rank:
        wanted = ListOptions(
            10 if options.k is None else options.k, options.split or "user-time", options.scope
        )
        lists = _contributed(campaign_lists, file, dataset, options, wanted)
        _show_lists(lists)
        return lists
    if options.scope is not None:
        raise UsageError("--scope: ratings are predicted for all items; leave it out or add --rank")
    stars = _contributed(campaign_stars, file, dataset, options)
    _show_stars(stars, str(dataset.scale))
    return stars


def _contributed(
    measure: Callable[..., _Result],
    file: Path,
    dataset: Dataset,
    options: CampaignOptions,
    *more: Any,
) -> _Result:
    epsilon = positive_fraction("--epsilon", options.epsilon or DEFAULT_EPSILON)
    metadata = metadata_of(dataset.described, file) if options.meta else None
    with refusing(UsageError, with_dashes), output.progress("contributions") as advance:
        return measure(
            *(dataset, options.mode, epsilon, *more),
            metadata=metadata,
            seed=options.seed,
            progress=advance,
        )


def _show_stars(result: CampaignStars, scale: str) -> None:
    """Print the errors of predictions as a table."""
    rows = [
        ("people, items", f"{result.people:,}, {result.items:,}"),
        ("stages", ", ".join(result.stages)),
        ("ratings tested", f"{result.events:,}"),
        (f"RMSE ({scale})", f"{result.rmse:.4f}"),
        ("MAE", f"{result.mae:.4f}"),
        ("RMSE of the items' true means", f"{result.rmse_baseline:.4f}"),
        ("largest contribution, bytes", f"{result.stage_bytes:,}"),
    ]
    features = _features(meta=result.meta)
    output.table(
        ("", ""), rows, title=f"{result.mode}, epsilon {result.epsilon:g} a person, {features}"
    )
    output.notice(
        f"{result.people:,} people, each protected whole: epsilon {result.epsilon:g}, delta "
        f"{result.delta:g}"
    )
    if result.rmse > result.rmse_baseline:
        output.notice(
            "warning: the items' true means predict better; it needs more people, or a larger "
            "--epsilon"
        )


def _show_lists(result: CampaignLists) -> None:
    """Print the figures of lists as a table."""
    title = (
        f"lists of {result.k}, {result.split}, {result.users:,} users, scope {result.scope:,}, "
        f"{result.mode}, epsilon {result.epsilon:g} a person, {_features(meta=result.meta)}"
    )
    table_of_rows(result.rows, title)
    output.notice(
        f"{result.people:,} people, each protected whole: epsilon {result.epsilon:g}, delta "
        f"{result.delta:g}; {result.directions} directions of taste above the noise"
    )
    if result.directions < 3:
        output.notice("too few people for this epsilon: the lists are those of the prior")


def _features(*, meta: bool) -> str:
    return "with public metadata" if meta else "without metadata"

"""What `evaluate --continual` prints: errors over time, by form."""

from __future__ import annotations

from stream_app.cli import output
from stream_app.evaluation.campaigns.continual import CampaignsOverTime

_TITLES = {
    "again": "campaigns again and again",
    "running": "running sums",
    "item means": "items' true means",
}


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

"""The figures of a demo: one record, written as JSON and printed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import isfinite, nan
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass
class Figures:
    """Counts are ratings, `rejected` alone counts records; RMSEs in the data's own units; NaN is
    null."""

    rows: int = 0
    published: int = 0
    refused: int = 0
    applied: int = 0
    duplicates: int = 0
    rejected: int = 0
    held_out: int = 0
    ratings_per_second: float = nan
    rmse_reported: float = nan
    rmse_debiased: float = nan
    rmse_true: float = nan
    rmse_baseline: float = nan
    kl_nats: float = nan
    mechanism: str = ""
    epsilon: float | None = None
    adjacency: str = ""
    query_p50_ms: float = nan
    query_p99_ms: float = nan
    query_unanswered: int = 0
    index: str = ""
    recall: float = nan
    worker_rss_mb: float = nan
    cut: int = 0
    model_digest: str = ""
    log_digest: str = ""
    rmse_best_possible: float = nan
    rebuild_seconds: float = nan
    data: str = ""

    def write(self, path: Path) -> None:
        """Write the figures as one JSON object."""
        row = {
            k: None if isinstance(v, float) and not isfinite(v) else v
            for k, v in asdict(self).items()
        }
        path.write_text(json.dumps(row, indent=2) + "\n")


@dataclass(frozen=True)
class SampleAnswer:
    """The answer for one user, beside the ratings that only the device knows."""

    user: str
    liked: Sequence[str]
    recommended: Sequence[tuple[str, float]]
    method: str


def show_sample_answers(console: Console, answers: Sequence[SampleAnswer], plain: bool) -> None:
    """Print the top-10 of some users beside what they had rated highly."""
    for answer in answers:
        console.print(f"\nuser {answer.user}, recommended by {answer.method}", soft_wrap=True)
        liked = "what the user rated highly (only the device knows)"
        recommended = "what the server recommends, and the rating it predicts"
        if plain:
            console.print(f"  {liked}: {'; '.join(answer.liked)}", soft_wrap=True)
            console.print(f"  {recommended}:", soft_wrap=True)
            for title, score in answer.recommended:
                console.print(f"    {score:.2f}  {title}", soft_wrap=True)
            continue
        table = Table(liked, recommended, "")
        for i in range(max(len(answer.liked), len(answer.recommended))):
            title, score = answer.recommended[i] if i < len(answer.recommended) else ("", nan)
            title_liked = answer.liked[i] if i < len(answer.liked) else ""
            table.add_row(title_liked, title, f"{score:.2f}" if isfinite(score) else "")
        console.print(table)


def show_figures(console: Console, figures: Figures) -> None:
    """Print what was measured and whether everything is accounted for."""
    whole = figures.published + figures.refused == figures.rows
    arrived = figures.applied + figures.duplicates + figures.held_out
    accounted = {True: "(all accounted for)", False: "(NOT ALL ACCOUNTED FOR)"}
    console.print(
        f"rows {figures.rows:,} = published {figures.published:,} + refused {figures.refused:,} "
        f"{accounted[whole]}",
        soft_wrap=True,
    )
    console.print(
        f"published {figures.published:,} = applied {figures.applied:,} + held out "
        f"{figures.held_out:,} + duplicate {figures.duplicates:,} "
        f"{accounted[arrived == figures.published]}; records rejected: {figures.rejected:,}",
        soft_wrap=True,
    )
    equal = figures.model_digest == figures.log_digest
    console.print(
        f"state at cut {figures.cut}: {figures.model_digest}; recomputed from the log in "
        f"{figures.rebuild_seconds:.1f} s: "
        f"{'equal' if equal else 'DIFFERENT: ' + figures.log_digest}",
        soft_wrap=True,
    )

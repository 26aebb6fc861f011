"""The figures of a demo: one record, written as JSON and checked in words; all of them, in lines,
for who asks for that."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from math import isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING

from stream_app.errors import UserError

if TYPE_CHECKING:
    from stream_app.cli.demo.lists.quality import ListQuality


@dataclass
class Figures:
    """Counts are ratings, `rejected` alone counts records; RMSEs in the data's own units; NaN is
    null.

    quality: None where `quality_absent` says why. A worker measures lists at later visits, which a
    demo of one day does not have. genres: share of a list in genres that its user likes. attacker:
    share of single ratings that are guessed right, with the report and without.
    """

    rows: int = 0
    published: int = 0
    refused: int = 0
    visitors: int = 0
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
    worker_rss_mb: float = nan
    cut: int = 0
    model_digest: str = ""
    log_digest: str = ""
    rmse_best_possible: float = nan
    rebuild_seconds: float = nan
    data: str = ""
    list_method: str = ""
    quality: ListQuality | None = None
    quality_absent: str = ""
    genres: dict[str, float] | None = None
    attacker: dict[str, float] | None = None

    def write(self, path: Path) -> None:
        """Write the figures as one JSON object."""
        row = {
            name: None if isinstance(value, float) and not isfinite(value) else value
            for name, value in asdict(self).items()
        }
        path.write_text(json.dumps(row, indent=2) + "\n")

    @property
    def is_accounted_for(self) -> bool:
        """Whether every rating is found at the worker or was refused."""
        arrived = self.applied + self.duplicates + self.held_out
        whole = self.published + self.refused == self.rows
        return whole and arrived == self.published + self.visitors

    def check(self) -> None:
        """Raise UserError where a rating is lost, where the state is not that of the log, or where
        lists are below popularity by more than chance."""
        if not self.is_accounted_for:
            raise UserError(
                f"not every rating is accounted for ({accounts(self)}): please report it"
            )
        if self.model_digest != self.log_digest:
            raise UserError(
                "the worker's state is not that of the log: please report this as a defect"
            )
        if self.quality is not None:
            self.quality.check()


def accounts(figures: Figures) -> str:
    """Return where every rating is."""
    f = figures
    visitors = f" + {f.visitors:,} of visitors of the page" if f.visitors else ""
    whole = "all accounted for" if f.is_accounted_for else "NOT ALL ACCOUNTED FOR"
    return (
        f"rows {f.rows:,} = published {f.published:,} + refused {f.refused:,}; published"
        f"{visitors} = applied {f.applied:,} + held out {f.held_out:,} + duplicate "
        f"{f.duplicates:,}; records rejected: {f.rejected:,}: {whole}"
    )


def recomputed(figures: Figures) -> str:
    """Return whether the worker has the state of the log."""
    f = figures
    equal = "equal" if f.model_digest == f.log_digest else f"DIFFERENT: {f.log_digest}"
    return f"state recomputed from the log in {f.rebuild_seconds:.1f} s: {equal}"


def _number(value: float, form: str = ".3f") -> str:
    return format(value, form) if isfinite(value) else "-"


def _protection(figures: Figures) -> str:
    """Return what the mechanism claims, in words."""
    if figures.epsilon is None:
        return f"{figures.mechanism}: nothing is protected"
    return (
        f"{figures.mechanism}: epsilon {figures.epsilon:g} per rating, adjacency "
        f"{figures.adjacency} (that it was rated, and when, is public)"
    )


def rows_of(figures: Figures) -> list[str]:
    """Return all figures in lines with labels."""
    f, n = figures, _number
    rows = {
        "published": f"{f.published:,} of {f.rows:,}, refused {f.refused:,}",
        "at the worker": f"applied {f.applied:,}   held out {f.held_out:,}   "
        f"duplicate {f.duplicates:,}   rejected {f.rejected:,}   cut {f.cut}",
        "speed": f"{n(f.ratings_per_second, ',.0f')} ratings/s",
        "RMSE, debiased": f"{n(f.rmse_debiased)}   all that the server can know",
        "RMSE, true": f"{n(f.rmse_true)}   known here because the demo simulates the devices",
        "RMSE, item means": f"{n(f.rmse_baseline)}   of the true ratings: not personalized, "
        "not private",
        "RMSE, reported": f"{n(f.rmse_reported)}   against the noised reports themselves",
        "RMSE, best possible": n(f.rmse_best_possible),
        "leakage": f"KL {n(f.kl_nats, '.5f')} nats, learned : held out; a measurement, no bound",
        "privacy": _protection(f),
        "queries": f"p50 {n(f.query_p50_ms, '.1f')} ms   p99 {n(f.query_p99_ms, '.1f')} ms   "
        f"unanswered {f.query_unanswered}",
        "worker": f"{n(f.worker_rss_mb, '.0f')} MB resident",
        "lists": f"by {f.list_method}" if f.list_method else "-",
        "state": f"{f.model_digest} at cut {f.cut}; of the log {f.log_digest}",
    }
    return [f"{name:20} {text}" for name, text in rows.items() if text != "-"]


def line_of(figures: Figures) -> str:
    """Return the figures while it runs."""
    f, n = figures, _number
    return (
        f"published {f.published} applied {f.applied} held_out {f.held_out} "
        f"duplicate {f.duplicates} rejected {f.rejected} "
        f"ratings_per_second {n(f.ratings_per_second, '.0f')} "
        f"rmse_debiased {n(f.rmse_debiased)} kl {n(f.kl_nats, '.5f')} "
        f"query_p50_ms {n(f.query_p50_ms, '.1f')}"
    )

"""The figures of a demo: one record, written as JSON and checked in words."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from math import isfinite, nan
from pathlib import Path

from stream_app.cli.demo.judged.quality import ListQuality
from stream_app.cli.output import say


@dataclass(frozen=True)
class UserLists:
    """Titles of two lists for one user, best first: the server's, and that with privacy off."""

    user: str
    server: tuple[str, ...]
    privacy_off: tuple[str, ...]


@dataclass
class Figures:
    """Counts are ratings, `rejected` alone counts records; RMSEs in the data's own units; NaN is
    null.

    lists_shared: mean share that two users' lists have in common, of the server and, `_clear`, with
    privacy off. quality: None where `quality_absent` says why. A worker measures lists at later
    visits, which a demo of one day does not have.
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
    lists_shared: float = nan
    lists_shared_clear: float = nan
    lists: tuple[UserLists, ...] = ()
    quality: ListQuality | None = None
    quality_absent: str = ""

    @property
    def list_quality(self) -> str:
        """The quality of the lists in words; empty before it is measured."""
        if self.quality is None:
            return f"unknown: {self.quality_absent}" if self.quality_absent else ""
        return str(self.quality)

    def write(self, path: Path) -> None:
        """Write the figures as one JSON object."""
        row = {
            name: None if isinstance(value, float) and not isfinite(value) else value
            for name, value in asdict(self).items()
        }
        path.write_text(json.dumps(row, indent=2) + "\n")


def show_accounts(figures: Figures) -> None:
    """Print whether every rating is accounted for and whether the worker has the log's state."""
    f = figures
    visitors = f" + {f.visitors:,} of visitors of the page" if f.visitors else ""
    arrived = f.applied + f.duplicates + f.held_out
    say(
        f"rows {f.rows:,} = published {f.published:,} + refused {f.refused:,} "
        f"{_accounted(f.published + f.refused == f.rows)}"
    )
    whole = _accounted(arrived == f.published + f.visitors)
    say(
        f"published {f.published:,}{visitors} = applied {f.applied:,} + held out {f.held_out:,} + "
        f"duplicate {f.duplicates:,} {whole}; records rejected: {f.rejected:,}"
    )
    equal = "equal" if f.model_digest == f.log_digest else f"DIFFERENT: {f.log_digest}"
    say(
        f"state at cut {f.cut}: {f.model_digest}; recomputed from the log in "
        f"{f.rebuild_seconds:.1f} s: {equal}"
    )


def _accounted(whole: bool) -> str:
    return "(all accounted for)" if whole else "(NOT ALL ACCOUNTED FOR)"

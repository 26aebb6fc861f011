"""The figures of a demo: one record, shown while it runs, written as JSON and checked in words.

The live view is a table that is redrawn on a terminal, and a line every few seconds elsewhere.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from math import isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING

from rich.live import Live
from rich.table import Table
from rich.text import Text

from stream_app.cli import output
from stream_app.cli.output import say

if TYPE_CHECKING:
    from stream_app.cli.demo.quality import ListQuality


_LINE_SECONDS = 5.0
_SHOWN = 4  # titles of a list


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


Show = Callable[[Figures], None]


@contextmanager
def live_view(*, plain: bool) -> Iterator[Show]:
    """Give a function that shows the figures; plain lines are complete when the block ends."""
    if not plain:
        with Live(console=output.console(), refresh_per_second=4) as live:
            yield lambda figures: live.update(_table(figures))
        return
    newest, printed = Figures(), 0.0

    def show(figures: Figures) -> None:
        nonlocal newest, printed
        newest = figures
        if time.monotonic() - printed >= _LINE_SECONDS:
            printed = time.monotonic()
            say(_line(figures))
            for found in figures.lists:
                say(f"  {found.user}: {_titles(found.server)}")
                say(f"    privacy off: {_titles(found.privacy_off)}")

    yield show
    for name, text in _rows(newest):
        say(f"{name:20} {text}")


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


def _rows(figures: Figures) -> list[tuple[str, str]]:
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
        "list quality": f.list_quality or "-",
        "two lists share": f"{n(f.lists_shared, '.0%')}   with privacy off "
        f"{n(f.lists_shared_clear, '.0%')}",
    }
    for number, found in enumerate(f.lists, start=1):
        rows[f"list {number}"] = f"{found.user}: {_titles(found.server)}"
        rows[f"  privacy off{' ' * number}"] = _titles(found.privacy_off)
    return [(name, text) for name, text in rows.items() if text != "-"]


def _titles(titles: tuple[str, ...]) -> str:
    return "; ".join(titles[:_SHOWN]) or "no list yet"


def _table(figures: Figures) -> Table:
    table = Table(title=f"murmurec demo: {figures.data}", show_header=False, title_justify="left")
    for name, text in _rows(figures):
        table.add_row(name, Text(text))  # a title may look like markup
    return table


def _line(figures: Figures) -> str:
    f, n = figures, _number
    return (
        f"published {f.published} applied {f.applied} held_out {f.held_out} "
        f"duplicate {f.duplicates} rejected {f.rejected} "
        f"ratings_per_second {n(f.ratings_per_second, '.0f')} "
        f"rmse_debiased {n(f.rmse_debiased)} kl {n(f.kl_nats, '.5f')} "
        f"query_p50_ms {n(f.query_p50_ms, '.1f')} "
        f"lists_shared {n(f.lists_shared, '.2f')}"
    )

"""The live view: a table that is redrawn on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import isfinite

from rich.live import Live
from rich.table import Table
from rich.text import Text

from stream_app.cli import output
from stream_app.cli.demo.report import Figures

_LINE_SECONDS = 5.0
_SHOWN = 4  # titles of a list
Show = Callable[[Figures], None]


@contextmanager
def opened(*, plain: bool) -> Iterator[Show]:
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
            output.say(_line(figures))
            for found in figures.lists:
                output.say(f"  {found.user}: {_titles(found.server)}")
                output.say(f"    privacy off: {_titles(found.privacy_off)}")

    yield show
    for name, text in _rows(newest):
        output.say(f"{name:20} {text}")


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
        f"rmse_debiased {n(f.rmse_debiased)} rmse_true {n(f.rmse_true)} "
        f"rmse_baseline {n(f.rmse_baseline)} kl {n(f.kl_nats, '.5f')} "
        f"query_p50_ms {n(f.query_p50_ms, '.1f')} "
        f"lists_shared {n(f.lists_shared, '.2f')}"
    )

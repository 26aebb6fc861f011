"""A figure as tables, its curves and the paper beside what was measured; and as a picture."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from research.papers.figure import NO_CLAIM, Figure, Published, Series
from stream_app.cli.output import print_json, say, table

if TYPE_CHECKING:
    from research.commands.reproduce.figures import Reproducible

_MARKERS = "osD^vPXd*<>"


def listed(figures: Iterable[Reproducible]) -> None:
    """Print every figure that can be asked for."""
    table(
        ["figure", "paper", "shows", "data"],
        [[each.id, each.paper, each.shows, each.data] for each in figures],
    )
    say(
        "compute one with murmurec reproduce F3, a paper with murmurec reproduce S003; --data DIR "
        "holds the data, each set in a folder of its name, and --quick takes a first look"
    )


def list_papers(as_json: bool) -> None:
    """Print what is implemented of each paper, where, and which claim fails."""
    from research.papers.systems import PAPERS

    if as_json:
        print_json([asdict(paper) for paper in PAPERS], indent=1)
        return
    table(
        ["paper", "system", "state", "claim that fails", "module"],
        [
            [f"{paper.key} {paper.authors}", system.name, system.state, system.fails or "-",
             system.module]
            for paper in PAPERS
            for system in paper.systems
        ],
    )  # fmt: skip


def show(figure: Figure, data: Sequence[str]) -> None:
    """Print a figure."""
    say(f"{figure.id}, {figure.paper}: {figure.title} ({'; '.join(data)})")
    _curves(figure)
    if figure.published:
        table(
            ["", "the paper", "here", "agrees"],
            [[each.what, each.claimed, each.measured, _verdict(each)] for each in figure.published],
        )
    for note in figure.notes:
        say(f"note: {note}")


def _curves(figure: Figure) -> None:
    """Print curves over the same x as columns, others as rows of points."""
    print(f"{figure.y} by {figure.x}")
    groups: dict[tuple[float, ...], list[Series]] = {}
    for series in figure.series:
        groups.setdefault(series.x, []).append(series)
    for x, together in groups.items():
        table(
            ["", *(f"{value:g}" for value in x)],
            [[series.name, *(_number(value) for value in series.y)] for series in together],
        )


def _verdict(statement: Published) -> str:
    if statement.claimed == NO_CLAIM:
        return "-"
    return "yes" if statement.agrees else "NO"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def draw(figure: Figure, data: Sequence[str], place: Path) -> None:
    """Write a figure as PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Sheet

    # Matplotlib builds a font cache on first use, and warns if that takes more than 5 s.
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    sheet = Sheet(figsize=(8, 5), layout="constrained", dpi=120)
    FigureCanvasAgg(sheet)
    axes = sheet.subplots()
    for number, series in enumerate(figure.series):
        axes.plot(
            series.x, series.y, marker=_MARKERS[number % len(_MARKERS)], ms=4, label=series.name
        )
    scales = {"xscale": "log" if figure.log_x else "linear"}
    positive = all(value > 0 for series in figure.series for value in series.y)
    scales["yscale"] = ("log" if positive else "symlog") if figure.log_y else "linear"
    axes.set(title=figure.title, xlabel=figure.x, ylabel=figure.y, **scales)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    sheet.suptitle(f"{figure.id}, {figure.paper}: {'; '.join(data)}", fontsize=9)
    sheet.savefig(place, format="png")

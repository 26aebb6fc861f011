"""A figure as tables, its curves and the paper beside what was measured; and as a picture."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from research.commands.pictures import TEXT, dress, save, sheet, style
from research.papers.figure import NO_CLAIM, Figure, Published, Series
from stream_app.cli.output import print_json, say, table

if TYPE_CHECKING:
    from research.commands.reproduce.figures import Reproducible

_QUANTILE = re.compile(r"(.+), ([0-9]+) %")


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
    """Write a figure as PNG; two curves `NAME, 10 %` and `NAME, 90 %` are a band around NAME."""
    names = {each.name for each in figure.series}
    bands: dict[str, list[Series]] = {}
    lines: list[Series] = []
    for series in figure.series:
        found = _QUANTILE.fullmatch(series.name)
        (bands.setdefault(found[1], []) if found and found[1] in names else lines).append(series)
    drawn = sheet(9.5, max(5.2, 1 + 0.22 * len(lines)))
    axes = drawn.subplots()
    for at, series in enumerate(lines):
        look = style(at)
        band = bands.get(series.name, [])
        axes.plot(series.x, series.y, label=series.name + _ends(band), **look)
        if band:
            edges = [each.y for each in band]
            axes.fill_between(band[0].x, edges[0], edges[-1], color=look["color"], alpha=0.12, lw=0)
    positive = all(value > 0 for series in figure.series for value in series.y)
    axes.set_xscale("log" if figure.log_x else "linear")
    axes.set_yscale("log" if figure.log_y and positive else "linear")
    dress(axes, figure.title, figure.x, figure.y)
    axes.legend(fontsize=TEXT - 1, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    heading = f"{figure.id}, {figure.paper}: {'; '.join(data)}"
    drawn.suptitle(heading, x=0.01, ha="left", fontsize=TEXT)
    save(drawn, place)


def _ends(band: Sequence[Series]) -> str:
    """Return which quantiles the edges of a band are, as ` (5 to 95 %)`."""
    found = [match[2] for each in band if (match := _QUANTILE.fullmatch(each.name))]
    return f" ({found[0]} to {found[-1]} %)" if found else ""

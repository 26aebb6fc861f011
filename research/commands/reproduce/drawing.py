"""A figure as a picture."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from research.papers.figure import Figure

_MARKERS = "osD^vPXd*<>"


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

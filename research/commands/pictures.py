"""The look of pictures: a light ground, plain numbers on the axes, colours that stay apart.

Colours are those of Okabe and Ito (2008), for colour-blind readers; lines differ in marker besides.
"""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

COLORS = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#222222")
MARKERS = "osD^vPXd*<>"
INK, GREY = "#222222", "#666666"
TEXT = 10
_FEW_DECADES = 2.5


def sheet(width: float, height: float) -> Figure:
    """Return an empty white figure, in inches, whose parts make room for each other."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # Matplotlib builds a font cache on first use, and warns if that takes more than 5 s.
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    found = Figure(figsize=(width, height), layout="constrained", dpi=120, facecolor="white")
    FigureCanvasAgg(found)
    return found


def save(figure: Figure, place: Path) -> None:
    """Write a figure as PNG, without a date: the same numbers are the same file."""
    figure.savefig(place, format="png", metadata={"Software": None})


def dress(axes: Axes, title: str, x: str, y: str) -> None:
    """Give axes their names, a grid, and ticks with plain numbers; scales and limits are set."""
    axes.set_title(title, loc="left", fontsize=TEXT + 1, color=INK)
    axes.set_xlabel(x, fontsize=TEXT)
    axes.set_ylabel(y, fontsize=TEXT)
    axes.tick_params(labelsize=TEXT - 1, colors=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#dddddd", lw=0.7)
    axes.set_axisbelow(True)
    for axis in (axes.xaxis, axes.yaxis):
        _plain(axis)


def style(number: int) -> dict[str, Any]:
    """Return colour and marker of the line with this number."""
    return {
        "color": COLORS[number % len(COLORS)],
        "marker": MARKERS[number % len(MARKERS)],
        "ls": ("-", "--", ":")[number // len(COLORS) % 3],
        "ms": 5,
        "lw": 1.6,
    }


def _plain(axis: Axis) -> None:
    """Write 20,000 and 0.05 at the ticks, no powers; on a scale in logs at 1, 2 and 5 too."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, ScalarFormatter

    low, high = axis.get_view_interval()
    plain = axis.get_scale() == "linear" and 1e-4 < abs(high) < 1e4
    axis.set_major_formatter(
        ScalarFormatter(useOffset=False) if plain else FuncFormatter(lambda value, _: number(value))
    )
    if axis.get_scale() != "log":
        return
    few = math.log10(high / low) < _FEW_DECADES
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if few else (1,), numticks=12))
    axis.set_minor_formatter(NullFormatter())


def number(value: float) -> str:
    """Return a number as it is read: 12,000, 0.05, and 1e-07 where there are too many zeros."""
    if value and not 1e-5 <= abs(value) < 1e9:
        return f"{value:.0e}"
    return f"{value:,.10f}".rstrip("0").rstrip(".")

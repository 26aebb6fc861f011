"""The picture of both panels: SVG for pages, PNG for all else.

Colours are those of Okabe and Ito (2008), which stay apart for colour-blind readers; lines differ
in marker and dash besides. Every line has its name beside it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Row = Mapping[str, Any]
META = ", genres and years"
_TICKS = (0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_LAST = 640.0
_SMALL, _TEXT = 8.5, 9.5
_INK, _GREY = "#222222", "#666666"


class _Style(NamedTuple):
    name: str
    color: str
    marker: str
    dash: str = "-"
    width: float = 1.6


_STYLES = {
    ("campaign", "central"): _Style("noisy sums", "#0072B2", "o", width=2.8),
    ("campaign", "central" + META): _Style("+ genres, years", "#0072B2", "D", width=2.8),
    ("campaign", "split"): _Style("split", "#0072B2", "o", ":"),
    ("partition", ""): _Style("partition", "#009E73", "s"),
    ("rr", ""): _Style("rr", "#E69F00", "v"),
    ("cell", ""): _Style("cell", "#D55E00", "^"),
    ("like", ""): _Style("like", "#AA4499", "P"),
}


class _Place(NamedTuple):
    """Where a line's name stands: at its point number `at`, moved by points of the page."""

    at: int
    right: float
    up: float
    align: str = "left"


_PLACES = {
    ("errors", "campaign", "central"): _Place(-1, 6, 3),
    ("errors", "campaign", "central" + META): _Place(-1, 6, -9),
    ("errors", "campaign", "split"): _Place(-1, 6, 7),
    ("errors", "partition", ""): _Place(4, -2, -12, "right"),
    ("errors", "rr", ""): _Place(6, 6, 5),
    ("errors", "cell", ""): _Place(-2, 0, 7, "center"),
    ("lists", "campaign", "central"): _Place(-1, 0, 8, "center"),
    ("lists", "campaign", "split"): _Place(-1, 4, -12, "center"),
    ("lists", "rr", ""): _Place(0, 0, 8, "left"),
    ("lists", "like", ""): _Place(-2, -5, 5, "right"),
    ("lists", "cell", ""): _Place(-2, 5, -10, "left"),
}
_LINES = {
    "item means": "item means of true ratings",
    "nothing sent": "nothing sent: the device alone",
    "no privacy": "no privacy",
    "popular": "popular items",
    "EASE": "no privacy: EASE",
}


def draw(found: Row, places: Sequence[Path]) -> None:
    """Write the figure of the results of `measure`, each file by its ending, .svg or .png."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # Matplotlib builds a font cache on first use, and warns if that takes more than 5 s.
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    # No date and no random names: the same numbers are the same file.
    with matplotlib.rc_context({"svg.hashsalt": "murmurec", "font.size": _TEXT}):
        figure = Figure(figsize=(9.6, 4.6), layout="constrained", dpi=160, facecolor="white")
        FigureCanvasAgg(figure)
        errors, lists = figure.subplots(1, 2)
        _panel(errors, found, "errors")
        errors.set_ylabel("RMSE of predicted ratings, stars (lower is better)")
        errors.set_title("Predicted ratings", loc="left", fontsize=11, color=_INK)
        _panel(lists, found, "lists")
        lists.set_ylabel("nDCG@10 of the lists (higher is better)")
        lists.set_title("Lists", loc="left", fontsize=11, color=_INK)
        figure.suptitle(
            "What a whole person spends, and what it buys",
            x=0.01, ha="left", fontsize=13, color=_INK,
        )  # fmt: skip
        figure.supxlabel(_caption(found), x=0.01, ha="left", fontsize=7.5, color=_GREY)
        for place in places:
            dated = {"Date": None} if place.suffix == ".svg" else None
            figure.savefig(place, format=place.suffix[1:], metadata=dated)


def _caption(found: Row) -> str:
    return (
        f"{found['data']}: {found['people']:,} people, {found['ratings']:,} ratings; devices fold "
        f"in their own clean ratings; scope of cells and lists: {found['scope']} items; "
        f"mean of {len(found['seeds'])} split{'s' if len(found['seeds']) > 1 else ''}.\n"
        "rr and partition hide the stars, and leave public who rated what. rr for lists: a person "
        "of mean activity; all else: everyone."
    )


def _panel(axes: Axes, found: Row, panel: str) -> None:
    lines: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in found["points"]:
        if row["panel"] == panel:
            key = row["family"], row["variant"]
            lines.setdefault(key, []).append((row["person_epsilon"], row["value"]))
    for key, points in lines.items():
        _line(axes, panel, key, sorted(points))
    for name, label in _LINES.items():
        if name in found["references"] and (name in ("popular", "EASE")) == (panel == "lists"):
            _reference(axes, found["references"][name], label)
    axes.set_xscale("log")
    axes.set_xlim(0.42, _LAST)
    axes.set_xticks(_TICKS, [f"{tick:g}" for tick in _TICKS])
    axes.minorticks_off()
    axes.set_xlabel(f"epsilon of the whole person (delta {found['delta']:g})")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=_INK, labelsize=_SMALL)
    axes.margins(y=0.07)


def _line(
    axes: Axes, panel: str, key: tuple[str, str], points: Sequence[tuple[float, float]]
) -> None:
    style = _STYLES[key]
    axes.plot(
        *zip(*points, strict=True),
        color=style.color, marker=style.marker, ls=style.dash, lw=style.width,
        ms=5, mec="white", mew=0.6, zorder=3 if key[0] == "campaign" else 2,
    )  # fmt: skip
    place = _PLACES[(panel, *key)]
    shown = [point for point in points if point[0] <= _LAST]
    at = shown[max(-len(shown), min(place.at, len(shown) - 1))]
    axes.annotate(
        style.name, at, (place.right, place.up), textcoords="offset points",
        ha=place.align, va="center", color=style.color, fontsize=_TEXT,
        fontweight="bold" if key[0] == "campaign" and key[1] != "split" else "normal",
    )  # fmt: skip


def _reference(axes: Axes, value: float, label: str) -> None:
    axes.axhline(value, color=_GREY, lw=1, ls=(0, (5, 4)), zorder=1)
    axes.annotate(
        label, (0.995, value), (0, 3), xycoords=("axes fraction", "data"),
        textcoords="offset points", ha="right", va="bottom", fontsize=_SMALL, color=_GREY,
    )  # fmt: skip

"""The picture of both panels: SVG for pages, PNG for all else.

Colours are those of Okabe and Ito (2008), which stay apart for colour-blind readers; lines differ
in marker and dash besides. Every line has its name beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from research.commands.pictures import GREY, INK, sheet
from stream_app.cli.output import plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Row = Mapping[str, Any]
_TICKS = (0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_LAST = 640.0
_SMALL, _TEXT = 8.5, 9.5

# Text stays text in an SVG: small, and readable by machines; the fonts have one width.
_SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "murmurec",
    "svg.fonttype": "none",
    "font.family": ["DejaVu Sans", "Verdana", "sans-serif"],
    "font.size": _TEXT,
}


class _Style(NamedTuple):
    name: str
    color: str
    marker: str
    dash: str = "-"
    width: float = 1.6


_STYLES = {
    ("campaign", "central"): _Style("noisy sums", "#0072B2", "o", width=2.8),
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
    name: str = ""


_PLACES = {
    ("errors", "partition", ""): _Place(4, -2, -12, "right"),
    ("errors", "rr", ""): _Place(6, 6, 5),
    ("errors", "cell", ""): _Place(-2, -4, -11, "right"),
    ("lists", "campaign", "central"): _Place(-1, 0, 8, "center"),
    ("lists", "campaign", "split"): _Place(-1, 4, -12, "center"),
    ("lists", "rr", ""): _Place(1, 0, 9, "center", "rr, items public"),
    ("lists", "like", ""): _Place(-2, -5, 5, "right"),
    ("lists", "cell", ""): _Place(-2, 5, -10, "left"),
}
_LINES = {  # reference -> panel, name, side of the page
    "item means": ("errors", "item means of true ratings", "right"),
    "nothing sent": ("errors", "nothing sent: the device alone", "right"),
    "no privacy": ("errors", "no privacy: rr's learner", "right"),
    "popular": ("lists", "popular items", "left"),
    "EASE": ("lists", "no privacy: EASE", "right"),
}


def draw(found: Row, places: Sequence[Path]) -> None:
    """Write the figure of the results of `measure`, each file by its ending, .svg or .png."""
    import matplotlib

    # No date and no random names: the same numbers are the same file.
    with matplotlib.rc_context(_SETTINGS):
        for place in places:
            dated = {"Date": None} if place.suffix == ".svg" else None
            # A layout moves a little each time that it is drawn.
            _figure(found).savefig(place, format=place.suffix[1:], metadata=dated)


def _figure(found: Row) -> Figure:
    figure = sheet(8.8, 4.5)
    figure.set_dpi(160)
    figure.set_layout_engine("constrained", wspace=0.06)
    errors, lists = figure.subplots(1, 2)
    _panel(errors, found, "errors")
    errors.set_ylabel("RMSE, stars: lower is better")
    errors.set_title("Predicted ratings", loc="left", fontsize=11, color=INK)
    _panel(lists, found, "lists")
    lists.set_ylabel("nDCG@10: higher is better")
    lists.set_title("Recommended lists", loc="left", fontsize=11, color=INK)
    title = "What a whole person spends, and what it buys"
    figure.suptitle(title, x=0.01, ha="left", fontsize=13, color=INK)
    figure.supxlabel(_caption(found), x=0.01, ha="left", fontsize=8, color=GREY)
    return figure


def _caption(found: Row) -> str:
    return (
        f"{found['data']}: {found['people']:,} people, {found['ratings']:,} ratings; devices fold "
        f"in their own clean ratings; scope of cells and lists: {found['scope']} items; "
        f"{plural(len(found['seeds']), 'split')}.\n"
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
    for name, (where, label, side) in _LINES.items():
        if where == panel:
            _reference(axes, found["references"][name], label, side)
    axes.set_xscale("log")
    axes.set_xlim(0.42, _LAST)
    axes.set_xticks(_TICKS, [f"{tick:g}" for tick in _TICKS])
    axes.minorticks_off()
    axes.set_xlabel("epsilon of the whole person, delta 1e-6")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=INK, labelsize=_SMALL)
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
        place.name or style.name, at, (place.right, place.up), textcoords="offset points",
        ha=place.align, va="center", color=style.color, fontsize=_TEXT,
        fontweight="bold" if key[0] == "campaign" and key[1] != "split" else "normal",
    )  # fmt: skip


def _reference(axes: Axes, value: float, label: str, side: str) -> None:
    axes.axhline(value, color=GREY, lw=1, ls=(0, (5, 4)), zorder=1)
    axes.annotate(
        label, (0.995 if side == "right" else 0.02, value), (0, 3),
        xycoords=("axes fraction", "data"), textcoords="offset points",
        ha=side, va="bottom", fontsize=_SMALL, color=GREY,
    )  # fmt: skip

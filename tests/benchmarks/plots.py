"""Plots of figures whose names say where they belong (`figure.py` lists the forms).

    search     queries a second against recall@100, one plot for each size of the catalogue
    memory     RMSE, and nDCG@10, against the bytes of the model
    epsilon    the same against the epsilon of a rating
    message    ratings a second against the ratings in one message

An SVG holds the digest of its points, so that a test can tell a plot of older figures; it has no
date and no random names, so that the same points are the same file.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.benchmarks.figure import Figure

Points = list[tuple[float, float]]

_SEARCH = re.compile(r"search (?P<curve>.+?), (?P<items>[\d,]+) items(?:, (?P<setting>.+))?")
_MEMORY = re.compile(r"memory (?P<curve>.+), (?P<x>[\d,]+) bytes(?: \(.+\))?")
_EPSILON = re.compile(r"epsilon (?P<curve>.+), (?P<x>[\d./]+|no noise)")
_MESSAGE = re.compile(r"message (?P<curve>.+), (?P<x>[\d,]+) ratings?")
# The worker's own figures (`pipeline.py`) are points of the same plot.
_WORKER = re.compile(
    r"worker end to end, (?P<x>[\d,]+) ratings? per (?P<form>.+) message, (?P<mechanism>.+)"
)
FORMS = {"search": _SEARCH, "memory": _MEMORY, "epsilon": _EPSILON, "message": _MESSAGE}
_RATES = {"queries/s": 1.0, "k queries/s": 1e3}
_QUALITY = {"stars": ("RMSE, stars: lower is better", "rmse"), "nDCG@10": ("nDCG@10", "ndcg")}
# Okabe and Ito 2008: apart for colour-blind readers; curves differ in their markers besides.
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
_MARKERS = "osD^vPX*"
_SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "murmurec",
    "svg.fonttype": "none",
    "font.family": ["DejaVu Sans", "Verdana", "sans-serif"],
    "font.size": 9.5,
}


@dataclass(frozen=True)
class Plot:
    """Curves by name, each sorted by x; `levels` are horizontal lines by name: without noise."""

    file: str
    title: str
    x: str
    y: str
    curves: Mapping[str, Points]
    levels: Mapping[str, float] = field(default_factory=dict)
    log_x: bool = False
    log_y: bool = False

    @property
    def digest(self) -> str:
        """Identify what the plot shows."""
        shows = [self.title, self.x, self.y, {**self.curves}, {**self.levels}]
        return hashlib.blake2b(json.dumps(shows).encode(), digest_size=16).hexdigest()


def plots(figures: Iterable[Figure]) -> list[Plot]:
    """Return the plots that have points; of two figures with one name and unit the last counts."""
    last = {(figure.name, figure.unit): figure for figure in figures}
    known = [figure for figure in last.values() if math.isfinite(figure.value)]
    return [*_searches(known), *_qualities(known), *_messages(known)]


def _searches(figures: list[Figure]) -> list[Plot]:
    """Pair the rate and the recall of a method and setting."""
    found: dict[int, dict[str, dict[str, dict[str, float]]]] = {}
    for figure in figures:
        match = _SEARCH.fullmatch(figure.name)
        if match:
            curves = found.setdefault(_number(match["items"]), {})
            settings = curves.setdefault(match["curve"], {}).setdefault(match["setting"] or "", {})
            if figure.unit in _RATES:
                settings["rate"] = figure.value * _RATES[figure.unit]
            elif figure.unit == "recall@100":
                settings["recall"] = figure.value
    made = []
    for items, curves in sorted(found.items()):
        pairs = {
            curve: sorted((s["recall"], s["rate"]) for s in settings.values() if len(s) == 2)
            for curve, settings in curves.items()
        }
        pairs = {curve: points for curve, points in pairs.items() if points}
        if pairs:
            title = f"The 100 best of {items:,} items, one thread"
            made.append(
                Plot(f"search-{items}", title, "recall@100", "queries/s", pairs, log_y=True)
            )
    return made


def _qualities(figures: list[Figure]) -> list[Plot]:
    made = []
    for pattern, file, title, x in (
        (_MEMORY, "memory", "Accuracy against memory", "bytes"),
        (_EPSILON, "epsilon", "Accuracy against epsilon", "epsilon of a rating"),
    ):
        for unit, (y, short) in _QUALITY.items():
            curves: dict[str, Points] = {}
            levels: dict[str, float] = {}
            for figure in figures:
                match = pattern.fullmatch(figure.name)
                if not match or figure.unit != unit:
                    continue
                if match["x"] == "no noise":
                    levels[match["curve"]] = figure.value
                else:
                    curves.setdefault(match["curve"], []).append(
                        (_fraction(match["x"]), figure.value)
                    )
            curves = {curve: sorted(points) for curve, points in curves.items()}
            if curves:
                made.append(Plot(f"{file}-{short}", title, x, y, curves, levels, log_x=True))
    return made


def _messages(figures: list[Figure]) -> list[Plot]:
    curves: dict[str, Points] = {}
    for figure in figures:
        if figure.unit != "M ratings/s":
            continue
        if match := _MESSAGE.fullmatch(figure.name):
            curves.setdefault(match["curve"], []).append((_number(match["x"]), figure.value))
        elif match := _WORKER.fullmatch(figure.name):
            curve = f"worker with Kafka, {match['form']}, {match['mechanism']}"
            curves.setdefault(curve, []).append((_number(match["x"]), figure.value))
    if not curves:
        return []
    curves = {curve: sorted(points) for curve, points in curves.items()}
    title, x = "Ratings a second against the size of a message", "ratings in one message"
    return [Plot("message", title, x, "M ratings/s", curves, log_x=True, log_y=True)]


def draw(plot: Plot, folder: Path) -> Path:
    """Write the plot as an SVG into `folder` and return its path."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Sheet

    # Matplotlib builds a font cache on first use, and warns if that takes more than 5 s.
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    path = folder / f"{plot.file}.svg"
    with matplotlib.rc_context(_SETTINGS):
        sheet = Sheet(figsize=(6.4, 4.0), layout="constrained", facecolor="white")
        FigureCanvasAgg(sheet)
        axes = sheet.subplots()
        for number, (curve, points) in enumerate(plot.curves.items()):
            color = _COLORS[number % len(_COLORS)]
            marker = _MARKERS[number % len(_MARKERS)]
            axes.plot(*zip(*points, strict=True), marker=marker, color=color, label=curve, ms=5)
            if curve in plot.levels:
                axes.axhline(plot.levels[curve], color=color, lw=0.8, ls=":")
        if plot.log_x:
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_formatter(lambda value, _: _tick(value))
        if plot.log_y:
            axes.set_yscale("log")
        axes.set(xlabel=plot.x, ylabel=plot.y)
        below = " (dotted: without noise)" if plot.levels else ""
        axes.set_title(plot.title + below, loc="left", fontsize=11)
        axes.grid(True, which="major", color="#dddddd", lw=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8.5)
        sheet.savefig(path, format="svg", metadata={"Date": None, "Description": plot.digest})
    return path


def _tick(value: float) -> str:
    """Return a power of two in the units of bytes and of epsilon.

    >>> [_tick(value) for value in (0.5, 8, 1 << 10, 1 << 21)]
    ['1/2', '8', '1 Ki', '2 Mi']
    """
    for size, unit in ((1 << 20, " Mi"), (1 << 10, " Ki")):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}" if value >= 1 else f"1/{1 / value:g}"


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def _fraction(text: str) -> float:
    above, _, below = text.replace(",", "").partition("/")
    return float(above) / float(below or 1)

"""Previews of the dashboards: the panels of the JSON, drawn as Grafana lays them out.

    python -m tests.pictures     # a real run of about three minutes, then the pictures

There is no Grafana in this project's tests. A preview is drawn from the same JSON and a real
Prometheus (`series.py`, `live.py`): places and sizes of panels, titles, units, legends with their
newest value, a threshold, a band. It holds the digest of its panels, so that a test can tell the
picture of an older board; times are minutes since the run began.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from math import inf, isfinite, isnan
from pathlib import Path
from typing import Any

from tests.deploy.boards import EDGE, OVERVIEW, QUALITY, Board
from tests.pictures.series import Curve, Filled, digest, rows
from tests.pictures.svg import measured

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "pictures"
STAMP = "Board"  # key of the digest in the PNG
MOST_BYTES, COLOURS = 150_000, 160
_COLUMN, _LINE = 42, 25  # pixels of a unit of gridPos, at 100 dots an inch
_SCALE = 1.5
_GAP, _HEAD, _LEGEND = 8, 26, 15
_MOST_LEGENDS = 5


@dataclass(frozen=True)
class Preview:
    """A picture: the rows of a board that it shows."""

    name: str
    board: Board
    titles: tuple[str, ...]

    @property
    def panels(self) -> list[dict[str, Any]]:
        """The panels of the committed JSON."""
        return rows(self.board.path, self.titles)

    def path(self, scheme: str) -> Path:
        """The committed picture of a colour scheme."""
        return FOLDER / f"board-{self.name}-{scheme}.png"


PREVIEWS = (
    Preview("quality", OVERVIEW, (QUALITY,)),
    Preview("stream", OVERVIEW, ("The stream", "Queries")),
    Preview("edge", EDGE, tuple(dict.fromkeys(panel.row for panel in EDGE.panels))),
)


@dataclass(frozen=True)
class Scheme:
    """Colours: of the page, a panel and its edge, text, faint text, a grid, a limit, and curves
    (Okabe and Ito 2008, lighter on a dark ground)."""

    page: str
    panel: str
    edge: str
    text: str
    faint: str
    limit: str
    curves: tuple[str, ...]


SCHEMES = {
    "light": Scheme(
        *("#f4f5f5", "#ffffff", "#d8d9da", "#24292e", "#5a6068", "#c4162a"),
        ("#0072B2", "#D55E00", "#008060", "#B0508C", "#B07D00", "#2F8FC4", "#333333", "#808080"),
    ),
    "dark": Scheme(
        *("#111217", "#181b1f", "#2c3036", "#d8d9da", "#a2a6ad", "#f2495c"),
        ("#56B4E9", "#F2995E", "#3CCB9B", "#E39AC5", "#F0C419", "#8AB8FF", "#DDDDDD", "#9A9A9A"),
    ),
}


def draw(preview: Preview, panels: list[Filled], scheme: str) -> bytes:
    """Return the PNG of a colour scheme; raises ValueError where it is too large."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from PIL import Image, PngImagePlugin

    top = min(panel.model["gridPos"]["y"] for panel in panels)
    ends = [panel.model["gridPos"]["y"] + panel.model["gridPos"]["h"] for panel in panels]
    width, height = 24 * _COLUMN, (max(ends) - top) * _LINE + _GAP
    colours = SCHEMES[scheme]
    ended = max((curve.times[-1] for panel in panels for curve in panel.curves), default=1.0)
    with matplotlib.rc_context({"font.family": "DejaVu Sans", "font.size": 8.0}):
        sheet = Figure(figsize=(width / 100, height / 100), facecolor=colours.page)
        FigureCanvasAgg(sheet)
        for panel in panels:
            _Place(sheet, colours, (width, height), top, max(ended, 1.0)).panel(panel)
        drawn = io.BytesIO()
        sheet.savefig(drawn, format="png", dpi=100 * _SCALE)
    with Image.open(drawn) as full:
        reduced = full.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    stamp, packed = PngImagePlugin.PngInfo(), io.BytesIO()
    stamp.add_text(STAMP, digest(preview.panels))
    reduced.save(packed, "PNG", optimize=True, pnginfo=stamp)
    if len(packed.getvalue()) > MOST_BYTES:
        raise ValueError(f"{preview.name}: {len(packed.getvalue())} bytes, {MOST_BYTES} at most")
    return packed.getvalue()


class _Place:
    """Draws panels on a sheet; positions are pixels from its upper left corner. size: of the sheet;
    top: its first line of gridPos; ended: the last second of the run."""

    def __init__(
        self, sheet: Any, colours: Scheme, size: tuple[int, int], top: int, ended: float
    ) -> None:
        self._sheet, self._colours, self._top, self._ended = sheet, colours, top, ended
        self._width, self._height = size

    def panel(self, panel: Filled) -> None:
        """Draw a heading, or a panel in its box."""
        place = panel.model["gridPos"]
        x, y = place["x"] * _COLUMN + _GAP, (place["y"] - self._top) * _LINE + _GAP
        if panel.model["type"] == "row":
            self._text(x + 2, y + 10, f"⌄  {panel.model['title']}", size=9.5, weight="bold")
            return
        w, h = place["w"] * _COLUMN - _GAP, place["h"] * _LINE - _GAP
        w -= _GAP if place["x"] + place["w"] == 24 else 0
        self._box(x, y, w, h)
        self._text(x + 10, y + 14, _cut(panel.model["title"], w - 20, 8, bold=True), weight="bold")
        if not panel.curves:
            self._text(x + w / 2, y + h / 2, "No data", colour="faint", ha="center", size=10)
        elif panel.model["type"] == "stat":
            self._stat(panel, x, y, w, h)
        else:
            self._curves(panel, x, y, w, h)

    def _box(self, x: float, y: float, w: float, h: float) -> None:
        from matplotlib.patches import Rectangle

        at = x / self._width, 1 - (y + h) / self._height
        size = w / self._width, h / self._height
        colours = {"facecolor": self._colours.panel, "edgecolor": self._colours.edge}
        self._sheet.add_artist(
            Rectangle(at, *size, transform=self._sheet.transFigure, lw=0.8, zorder=-1, **colours)
        )

    def _text(self, x: float, y: float, text: str, colour: str = "text", **more: Any) -> None:
        size, at = more.pop("size", 8.0), (x / self._width, 1 - y / self._height)
        self._sheet.text(
            *at, text, color=getattr(self._colours, colour, colour), va="center", fontsize=size,
            parse_math=False, **more,
        )  # fmt: skip

    def _stat(self, panel: Filled, x: float, y: float, w: float, h: float) -> None:
        """Write names and newest values; the name alone where the value is that of an info."""
        model, curves = panel.model, panel.curves
        unit = model["fieldConfig"]["defaults"]["unit"]
        step = min(44.0, (h - 34) / len(curves))
        for number, curve in enumerate(curves):
            middle = y + 32 + step * (number + 0.5) + max(0.0, (h - 40 - step * len(curves)) / 2)
            if model["options"]["textMode"] == "name":
                self._text(x + w / 2, middle, _cut(curve.legend, w - 20, 10), size=10, ha="center")
                continue
            self._text(x + 12, middle, _cut(curve.legend, w - 80, 8), colour="faint")
            size = 15 if step > 26 else 10
            self._text(x + w - 14, middle, shown(curve.last, unit), size=size, ha="right")

    def _curves(self, panel: Filled, x: float, y: float, w: float, h: float) -> None:
        """Draw axes with all curves, and below them the legends with the newest values."""
        listed = [curve for curve in panel.curves if not curve.thin or curve.filled]
        most = _MOST_LEGENDS if len(listed) <= _MOST_LEGENDS else _MOST_LEGENDS - 1
        lines = min(len(listed), _MOST_LEGENDS)
        below = lines * _LEGEND + 8
        defaults = panel.model["fieldConfig"]["defaults"]
        axes = self._axes(x + 54, y + _HEAD, w - 68, h - _HEAD - below - 20, defaults)
        colours = {
            curve.legend: self._colours.curves[number % len(self._colours.curves)]
            for number, curve in enumerate(listed)
        }
        by_legend = {curve.legend: curve for curve in panel.curves}
        for curve in panel.curves:
            if curve.thin:
                if curve.filled in by_legend:
                    self._band(axes, by_legend[curve.filled], curve, colours[listed[0].legend])
                continue
            axes.plot(curve.times, curve.values, color=colours[curve.legend], lw=1.3)
        if min(axes.dataLim.y0, 0) == 0:  # nothing below 0: no negative ticks
            axes.set_ylim(bottom=max(axes.get_ylim()[0], 0))
        line = y + h - below + _LEGEND / 2
        for number, curve in enumerate(listed[:most]):
            colour = colours[listed[0].legend] if curve.thin else colours[curve.legend]
            self._legend(x, line + number * _LEGEND, w, curve, colour, defaults["unit"])
        if len(listed) > most:
            rest = f"and {len(listed) - most} more"
            self._text(x + 30, line + most * _LEGEND, rest, colour="faint", size=7.5)

    def _legend(self, x: float, y: float, w: float, curve: Curve, colour: str, unit: str) -> None:
        self._text(x + 12, y, "▒" if curve.thin else "━", colour=colour)
        last = "" if curve.thin else shown(curve.last, unit)
        room = w - 54 - measured(last, 7.5 * 100 / 72)
        name = curve.legend.removesuffix(": to") if curve.thin else curve.legend
        self._text(x + 30, y, _cut(name, room, 7.5), size=7.5)
        self._text(x + w - 12, y, last, size=7.5, ha="right")

    def _axes(self, x: float, y: float, w: float, h: float, defaults: dict[str, Any]) -> Any:
        at = x / self._width, 1 - (y + h) / self._height
        axes = self._sheet.add_axes((*at, w / self._width, h / self._height), facecolor="none")
        axes.grid(True, color=self._colours.edge, lw=0.6)
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0, labelsize=7, labelcolor=self._colours.faint)
        axes.xaxis.set_major_formatter(lambda t, _: f"{int(t) // 60}:{int(t) % 60:02}")
        axes.xaxis.set_major_locator(_each(30))
        unit = defaults["unit"]
        axes.yaxis.set_major_formatter(lambda value, _: shown(value, unit, places=3))
        axes.yaxis.get_major_locator().set_params(nbins=5)
        axes.margins(y=0.1)
        axes.set_xlim(0, self._ended)
        for step in defaults.get("thresholds", {}).get("steps", ())[1:]:
            axes.axhline(step["value"], color=self._colours.limit, lw=1, ls="--")
        return axes

    @staticmethod
    def _band(axes: Any, low: Curve, high: Curve, colour: str) -> None:
        lows = dict(zip(low.times, low.values, strict=True))
        times = [time for time in high.times if time in lows]
        highs = dict(zip(high.times, high.values, strict=True))
        axes.fill_between(
            times,
            [lows[t] for t in times],
            [highs[t] for t in times],
            color=colour,
            alpha=0.2,
            lw=0,
        )


def _each(seconds: int) -> Any:
    from matplotlib.ticker import MultipleLocator

    return MultipleLocator(seconds)


def _cut(text: str, most: float, points: float, *, bold: bool = False) -> str:
    """Return a text that is at most so many pixels wide."""
    whole = text
    while measured(text, points * 100 / 72, bold=bold) > most:
        whole = whole[:-1].rstrip(" ,")
        text = f"{whole}…"
    return text


def shown(value: float, unit: str, places: int = 4) -> str:
    """Return a number with its unit as Grafana writes it.

    >>> [shown(0.0123, "s"), shown(0.25, "percentunit"), shown(3e6, "Bps"), shown(1500, "ops")]
    ['12.3 ms', '25%', '2.86 MiB/s', '1.5K/s']
    >>> [shown(2, "none"), shown(0.91234, "suffix: stars"), shown(float("inf"), "none")]
    ['2', '0.9123 stars', '+Inf']
    >>> [shown(0.0, unit) for unit in ("ops", "s", "Bps", "decbytes")]
    ['0/s', '0 s', '0 B/s', '0 B']
    """
    if isnan(value):
        return "NaN"
    if not isfinite(value):
        return "+Inf" if value == inf else "-Inf"
    if unit.startswith("suffix:"):
        return f"{_digits(value, places)} {unit.removeprefix('suffix:').strip()}"
    if unit == "percentunit":
        return f"{_digits(100 * value, 3)}%"
    if unit == "s":
        return _scaled(value, ((60.0, " min"), (1.0, " s"), (1e-3, " ms"), (1e-6, " µs")))
    if unit in ("bytes", "Bps"):
        steps = (2.0**30, " GiB"), (2.0**20, " MiB"), (2.0**10, " KiB"), (1.0, " B")
        return _scaled(value, steps) + ("/s" if unit == "Bps" else "")
    if unit == "decbytes":
        return _scaled(value, ((1e9, " GB"), (1e6, " MB"), (1e3, " kB"), (1.0, " B")))
    if unit in ("ops", "short"):
        scaled = _scaled(value, ((1e9, "B"), (1e6, "M"), (1e3, "K"), (1.0, "")))
        return scaled + ("/s" if unit == "ops" else "")
    return _digits(value, places)


def _scaled(value: float, steps: tuple[tuple[float, str], ...]) -> str:
    for size, name in steps:
        if abs(value) >= size:
            return _digits(value / size, 3) + name
    size, name = steps[-1] if value else next(step for step in steps if step[0] == 1.0)
    return _digits(value / size, 3) + name


def _digits(value: float, places: int) -> str:
    return f"{value:.{places}g}" if abs(value) < 10**places else f"{value:,.0f}"

"""A small SVG writer for the drawings of the documents: boxes, texts that fit, arrows.

One file is light and dark: its style asks for the reader's colour scheme, and it has a ground of
its own, so that it can be read where a page has another. Widths of texts are those of DejaVu Sans,
which few fonts exceed; a text that is wider than its place is a `ValueError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

SIZES = {"": 13.0, "small": 12.0, "head": 13.5, "title": 16.0}
LINE = 1.3  # of the size: from one line of a text to the next
_LIGHT = {
    "ground": "#ffffff",
    "text": "#1f2328",
    "faint": "#59636e",
    "line": "#8c959f",
    "plain": "#f6f8fa",
    "edge": "#d1d9e0",
    "clean": "#fde3dd",
    "noised": "#fdf0c8",
    "hidden": "#dcf3e3",
    "ask": "#ddebfb",
}
_DARK = {
    "ground": "#0d1117",
    "text": "#e6edf3",
    "faint": "#9ba5b0",
    "line": "#7d8590",
    "plain": "#161b22",
    "edge": "#3d444d",
    "clean": "#5c2b23",
    "noised": "#4d3c0c",
    "hidden": "#163d26",
    "ask": "#16335a",
}
FILLS = ("plain", "clean", "noised", "hidden", "ask")


class Drawing:
    """A picture of a fixed size; `title` is what it is called where it cannot be seen."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self._size, self._title = (width, height), title
        self._parts: list[str] = []

    def box(self, x: float, y: float, w: float, h: float, fill: str = "plain") -> None:
        """Draw a box with one of the fills."""
        place = f'x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}"'
        self._parts.append(f'<rect class="{fill}" {place} rx="6"/>')

    def text(
        self, x: float, y: float, lines: str, within: float, kind: str = "", **more: Any
    ) -> None:
        """Write lines, the first one's middle at y. kind: a name of `SIZES`; within: pixels that
        no line may exceed; bold, faint and anchor (`middle`, `end`) as they say."""
        size, bold = SIZES[kind], bool(more.get("bold"))
        names = [name for name in ("bold", "faint") if more.get(name)]
        names += [more["anchor"]] if "anchor" in more else []
        names += [kind] if kind else []
        shown = f' class="{" ".join(names)}"' if names else ""
        for number, line in enumerate(lines.split("\n")):
            if (width := measured(line, size, bold=bold)) > within:
                raise ValueError(f"{line!r} is {width:.0f} wide, and {within:.0f} at most")
            place = f'x="{x:g}" y="{y + number * size * LINE:g}"'
            self._parts.append(f"<text {place}{shown}>{escape(line, quote=False)}</text>")

    def block(
        self, x: float, y: float, w: float, h: float, head: str, body: str, fill: str = "plain"
    ) -> None:
        """Draw a box with a head and lines below it, in the middle of its height; raises ValueError
        where they are higher than the box."""
        self.box(x, y, w, h, fill)
        heads, bodies = (text.split("\n") if text else [] for text in (head, body))
        first, rest = SIZES["head"] * LINE, SIZES["small"] * LINE
        high = len(heads) * first + len(bodies) * rest
        if high > h - 8:
            raise ValueError(f"{head!r} is {high:.0f} high, and {h - 8:.0f} at most")
        top = y + (h - high) / 2
        middle = {"anchor": "middle"}
        if heads:
            self.text(x + w / 2, top + first / 2, head, w - 12, "head", bold=True, **middle)
        if bodies:
            below = top + len(heads) * first + rest / 2
            self.text(x + w / 2, below, body, w - 12, "small", **middle)

    def arrow(self, *points: tuple[float, float]) -> None:
        """Draw lines from point to point, with a head at the last."""
        path = " L".join(f"{x:g} {y:g}" for x, y in points)
        self._parts.append(f'<path class="arrow" d="M{path}" marker-end="url(#head)"/>')

    def rule(self, x: float, y: float, to_x: float, to_y: float, *, dashed: bool = False) -> None:
        """Draw a line."""
        kind = "rule dashed" if dashed else "rule"
        self._parts.append(f'<path class="{kind}" d="M{x:g} {y:g} L{to_x:g} {to_y:g}"/>')

    def svg(self) -> str:
        """Return the file."""
        width, height = self._size
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img">\n'
            f"<title>{escape(self._title)}</title>\n<style>\n{_style()}</style>\n"
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            'markerHeight="7" orient="auto"><path class="tip" d="M0 0L8 4L0 8z"/></marker></defs>\n'
            f'<rect class="ground" width="{width}" height="{height}" rx="8"/>\n'
            + "".join(f"{part}\n" for part in self._parts)
            + "</svg>\n"
        )


def _style() -> str:
    rules = [
        f"text{{font:{SIZES['']:g}px 'DejaVu Sans',Verdana,Arial,sans-serif;"
        "dominant-baseline:central}",
        *(f".{kind}{{font-size:{size:g}px}}" for kind, size in SIZES.items() if kind),
        ".bold{font-weight:bold}.middle{text-anchor:middle}.end{text-anchor:end}",
        ".arrow,.rule{fill:none;stroke-width:1.5}.dashed{stroke-dasharray:5 4}",
        *_colours(_LIGHT),
        "@media (prefers-color-scheme:dark){",
        *_colours(_DARK),
        "}",
    ]
    return "".join(f"{rule}\n" for rule in rules)


def _colours(scheme: dict[str, str]) -> Sequence[str]:
    fills = (f".{name}{{fill:{scheme[name]};stroke:{scheme['edge']}}}" for name in FILLS)
    return (
        f".ground{{fill:{scheme['ground']}}}text{{fill:{scheme['text']}}}"
        f".faint{{fill:{scheme['faint']}}}",
        f".arrow,.rule{{stroke:{scheme['line']}}}.tip{{fill:{scheme['line']}}}",
        "".join(fills),
    )


def measured(text: str, size: float, *, bold: bool = False) -> float:
    """Return the width of a line in pixels."""
    return sum(_advance(letter, bold) for letter in text) * size / 100


@cache
def _advance(letter: str, bold: bool) -> float:
    """Return the width of a letter of 100 pixels."""
    font = _font(bold)
    return float(font.load_char(ord(letter)).linearHoriAdvance) / 65536


@cache
def _font(bold: bool) -> Any:
    import matplotlib
    from matplotlib.ft2font import FT2Font

    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    font = FT2Font(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / name))
    font.set_size(100, 72)
    return font

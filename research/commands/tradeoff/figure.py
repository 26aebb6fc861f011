"""The figure of a trade-off: error, likes, fake ratings and noise of profiles against epsilon."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLES = {
    "naive": ("tab:gray", "v"),
    "rr": ("tab:blue", "o"),
    "partition": ("tab:green", "s"),
    "cell": ("tab:red", "o"),
    "ternary": ("tab:orange", "^"),
    "laplace": ("tab:purple", "D"),
    "like": ("tab:brown", "P"),
    "real": ("black", ""),
    "paper": ("tab:gray", "v"),
    "analytic": ("tab:blue", "o"),
}


def draw(found: Mapping[str, Any], place: Path) -> None:
    """Write the figure of the results of `measure` as PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # Matplotlib builds a font cache on first use, and warns if that takes more than 5 s.
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    figure = Figure(figsize=(20, 4.8), layout="constrained", dpi=120)
    FigureCanvasAgg(figure)
    accuracy, likes, volume, sigma = figure.subplots(1, 4)
    _accuracy(accuracy, found)
    _likes(likes, found)
    _volume(volume, found)
    _sigma(sigma, found)
    figure.suptitle(f"{found['data']}: {found['ratings']:,} ratings, {found['model']}, one pass")
    figure.savefig(place, format="png")


def _accuracy(axes: Axes, found: Mapping[str, Any]) -> None:
    for family, rows in _by(found["accuracy"], "family").items():
        scope = f", {rows[0]['scope']} items" if rows[0]["scope"] else ""
        _line(axes, rows, "rmse", family, f"{family} ({rows[0]['adjacency']}{scope})")
    for name, style in (("item_means", ":"), ("clean", "-")):
        for scope, value in found["references"][name].items():
            axes.axhline(value, color="black", lw=0.8, ls=style)
            axes.annotate(
                f"{name.replace('_', ' ')}, {scope}",
                (0.99, value),
                xycoords=("axes fraction", "data"),
                ha="right",
                va="bottom",
                fontsize=7,
            )
    axes.set(
        title="Error on held-out true ratings",
        xlabel="epsilon per report",
        ylabel=f"test RMSE ({found['scale']})",
    )
    axes.legend(fontsize=8)


def _likes(axes: Axes, found: Mapping[str, Any]) -> None:
    for family, rows in _by(found["likes"], "family").items():
        _line(axes, rows, "log_loss", family, f"{family} (cell, {rows[0]['scope']} items)")
        _line(axes, rows, "log_loss_item_shares", "real", "items' true shares of likes", ls=":")
    axes.set(
        title="Error of the predicted likes",
        xlabel="epsilon per report",
        ylabel="log-loss of the liked bit, nats a cell",
    )
    axes.legend(fontsize=8)


def _volume(axes: Axes, found: Mapping[str, Any]) -> None:
    for family, rows in _by(found["volume"], "family").items():
        _line(axes, rows, "fake", family, f"{family}: fake")
        _line(axes, rows, "real", family, f"{family}: real", ls=":")
    rated = f"{found['ratings_per_user']:.0f} rated of {found['items']:,} items"
    axes.set(
        title=f"Published per user, {rated}",
        xlabel="epsilon per cell",
        ylabel="cells per user",
        yscale="log",
    )
    axes.legend(fontsize=8)


def _sigma(axes: Axes, found: Mapping[str, Any]) -> None:
    for name in ("paper", "analytic"):
        label = {"paper": "Lemma 2 (paper)", "analytic": "analytic Gaussian"}[name]
        _line(axes, found["sigma"], name, name, label)
    axes.set(
        title=f"Noise of a projected profile, delta {found['delta']:g}",
        xlabel="epsilon per item",
        ylabel="sigma",
        xscale="log",
        yscale="log",
    )
    ticks = sorted(row["epsilon"] for row in found["sigma"])
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.legend(fontsize=8)


def _by(rows: Iterable[Mapping[str, Any]], name: str) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(str(row[name]), []).append(row)
    return found


def _line(
    axes: Axes, rows: Iterable[Mapping[str, Any]], y: str, style: str, label: str, ls: str = "-"
) -> None:
    points = sorted((row["epsilon"], row[y]) for row in rows)
    color, marker = _STYLES.get(style, (None, "x"))  # None: the next colour of the cycle
    axes.plot(*zip(*points, strict=True), color=color, marker=marker, ls=ls, ms=4, label=label)

"""The panels of a dashboard's JSON with the series that a Prometheus has for them.

Only what the board of this project uses: `gridPos`, title, unit, a threshold line, two overrides
(width of a line, fill between two curves), ranges and instant values, legends by labels.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import isnan, nan
from pathlib import Path
from typing import Any

from tests.fixtures.scraped import Recorded, ask, ask_range

Model = dict[str, Any]
_RATE_INTERVAL = "5s"  # of a scrape every second, with room for a late one


@dataclass(frozen=True)
class Curve:
    """One series: its legend, seconds since the start and values; `thin` has no line, and `filled`
    names the legend of the curve below it down to which it is filled."""

    legend: str
    times: tuple[float, ...]
    values: tuple[float, ...]
    thin: bool = False
    filled: str | None = None

    @property
    def last(self) -> float:
        """The newest value that is a number, NaN without one."""
        return next((value for value in reversed(self.values) if not isnan(value)), nan)


@dataclass(frozen=True)
class Filled:
    """A panel of the JSON and its curves, those without a number left out."""

    model: Model
    curves: tuple[Curve, ...]


def rows(path: Path, titles: tuple[str, ...]) -> list[Model]:
    """Return the panels of these rows of a dashboard, each heading before its panels."""
    found, within = [], False
    for panel in json.loads(path.read_text(encoding="utf-8"))["panels"]:
        within = panel["title"] in titles if panel["type"] == "row" else within
        if within:
            found.append(panel)
    return found


def digest(panels: list[Model]) -> str:
    """Identify what a preview shows but for its data: the panels, wherever they are on the page."""
    top = min(panel["gridPos"]["y"] for panel in panels)
    shown = [
        {**panel, "id": 0, "gridPos": {**panel["gridPos"], "y": panel["gridPos"]["y"] - top}}
        for panel in panels
    ]
    text = json.dumps(shown, sort_keys=True).encode()
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def filled(panel: Model, run: Recorded) -> Filled:
    """Return a panel with the curves that a run has for it."""
    overrides = {
        each["matcher"]["options"]: {one["id"]: one["value"] for one in each["properties"]}
        for each in panel.get("fieldConfig", {}).get("overrides", ())
    }
    curves = [curve for target in panel.get("targets", ()) for curve in _curves(target, run)]
    known = [curve for curve in curves if not isnan(curve.last)]
    return Filled(panel, tuple(_overridden(each, overrides) for each in known))


def _curves(target: Model, run: Recorded) -> Iterator[Curve]:
    expression = target["expr"].replace("$__rate_interval", _RATE_INTERVAL)
    expression = expression.replace("$instance", ".*")
    if target["instant"]:
        for each in ask(run.address, expression):
            yield Curve(_legend(target, each["metric"]), (0.0,), (float(each["value"][1]),))
        return
    for each in ask_range(run, expression):
        times, values = zip(*each["values"], strict=True)
        seconds = tuple(float(time) - run.start for time in times)
        yield Curve(_legend(target, each["metric"]), seconds, tuple(map(float, values)))


def _legend(target: Model, labels: dict[str, str]) -> str:
    return re.sub(r"{{([a-z_]+)}}", lambda match: labels.get(match[1], ""), target["legendFormat"])


def _overridden(curve: Curve, overrides: dict[str, dict[str, Any]]) -> Curve:
    own = overrides.get(curve.legend, {})
    thin = own.get("custom.lineWidth") == 0
    down_to = own.get("custom.fillBelowTo")
    return Curve(curve.legend, curve.times, curve.values, thin, down_to)

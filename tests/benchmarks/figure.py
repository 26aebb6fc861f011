"""One measured figure: its name, value, unit and target.

Figures with names of these forms are also points of a plot (`plots.py`):

    search METHOD, N items[, SETTING]     "queries/s", "recall@100" and others, one figure each
    memory MODEL, N bytes[ (NOTE)]        "stars" (RMSE) or "nDCG@10"
    epsilon MODEL, E                      "stars" or "nDCG@10"; E may be "no noise"
    message PATH, N ratings               "M ratings/s" by ratings in one message
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """A line of `bench.json`; `target` reads like ">= 12" or "<= 0.89", empty where none is set;
    `low` and `high` are the extremes of the rounds, where there were several."""

    name: str
    value: float
    unit: str
    target: str = ""
    low: float | None = None
    high: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the value meets the target; None without one, or without a value."""
        if not self.target or math.isnan(self.value):
            return None
        relation, limit = self.target.split()
        return self.value >= float(limit) if relation == ">=" else self.value <= float(limit)


def shown(value: float | None) -> str:
    """Return four digits of a value, "-" where there is none.

    >>> [shown(value) for value in (0.88512, 12345.6, float("nan"))]
    ['0.8851', '12,346', '-']
    """
    if value is None or math.isnan(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"

"""One measured figure: its name, value, unit and target."""

from __future__ import annotations

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
        """Whether the value meets the target; None without one."""
        if not self.target:
            return None
        relation, limit = self.target.split()
        return self.value >= float(limit) if relation == ">=" else self.value <= float(limit)

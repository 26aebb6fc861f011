"""A run of benchmarks as a file: `bench.json`, and those that are committed in `results/`.

A figure without a value (its data set or its peer is absent) is null in JSON and NaN here.
"""

from __future__ import annotations

import math
from pathlib import Path

import msgspec

from tests.benchmarks.figure import Figure
from tests.benchmarks.machine import Conditions


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """A figure as it is written; `low` and `high` are left out where there was one round."""

    name: str
    value: float | None
    unit: str
    target: str = ""
    met: bool | None = None
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, figure: Figure) -> Line:
        value = figure.value if math.isfinite(figure.value) else None
        return cls(
            figure.name, value, figure.unit, figure.target, figure.met, figure.low, figure.high
        )

    def figure(self) -> Figure:
        value = math.nan if self.value is None else self.value
        return Figure(self.name, value, self.unit, self.target, low=self.low, high=self.high)


class Measured(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one benchmark gave; `failed` is its error, and then it has no figures."""

    name: str
    seconds: float
    figures: list[Line] = []
    failed: str = ""


class Run(msgspec.Struct, frozen=True):
    """Conditions and figures."""

    conditions: Conditions
    benchmarks: list[Measured]

    def write(self, path: Path) -> None:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")

    def absent(self) -> list[str]:
        """Return the names of the figures that have no value: data sets and peers not there."""
        lines = (line for measured in self.benchmarks for line in measured.figures)
        return [line.name for line in lines if line.value is None]


def read(path: Path) -> Run:
    """Return the run of a file; ValueError in one sentence where it is none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Run)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}; give a file of `make bench`") from error
    except msgspec.DecodeError as error:
        raise ValueError(f"{path}: {error}; give a file of `make bench`") from error

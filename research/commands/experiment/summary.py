"""The table of an experiment: the mean over seeds with its 95 % interval.

    mean +- t s / sqrt(n)      t of n - 1 degrees of freedom (Student 1908)

Seeds draw the noise, the hashes, which 2,000 users are tested where there are more, and the random
split of `scope`; all other splits are one and the same. The interval says nothing of other data.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import NamedTuple

from research.commands.experiment.grid import PREQUENTIAL, SPLITS
from stream_app.evaluation.results import ExperimentRow

# The .975 quantile of Student's t, from 1 degree of freedom on.
_STUDENT = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045),
)
MEASURES = ("rmse", "mae", "log_loss", "ndcg", "recall", "coverage")
PROTECTS = (
    "protects: value, the stars of one rating; cell, one item of a user, rated or not; user, all "
    "that a person rated, at delta 1e-6; epsilons of two of these do not compare"
)
COVERS = (
    "95 % intervals are over seeds: noise, hashes, which users are tested, and the random split of "
    "scope; all other splits are one, and other data are not covered"
)


class Interval(NamedTuple):
    """A mean over seeds and half the width of its interval, 0 for one seed."""

    mean: float
    half: float

    @classmethod
    def over(cls, values: Sequence[float]) -> Interval:
        """Return the interval of one value a seed."""
        n = len(values)
        return cls(fmean(values), _STUDENT[n - 2] * stdev(values) / n**0.5 if n > 1 else 0.0)

    def __str__(self) -> str:
        return f"{self.mean:.4f}" + (f" ± {self.half:.4f}" if self.half else "")


class Group(NamedTuple):
    """The rows of all seeds of one model, mechanism and split."""

    rows: tuple[ExperimentRow, ...]

    @property
    def first(self) -> ExperimentRow:
        """The row of the first seed, which has what all of them share."""
        return self.rows[0]

    def interval(self, measure: str) -> Interval | None:
        """Return the interval of a measure, None where these rows have no such figure."""
        values = [getattr(row, measure) for row in self.rows]
        return None if None in values else Interval.over(values)


def groups_of(rows: Iterable[ExperimentRow]) -> list[Group]:
    """Return the rows in groups, in their order."""
    found: dict[tuple[str, ...], list[ExperimentRow]] = {}
    for row in rows:
        found.setdefault((row.model, row.mechanism, row.split), []).append(row)
    return [Group(tuple(each)) for each in found.values()]


def table_of(groups: Sequence[Group]) -> tuple[list[str], list[list[str]]]:
    """Return head and lines of the table: a line for each model and mechanism."""
    splits = [split for split in SPLITS if any(each.first.split == split for each in groups)]
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    for each in groups:
        row, cells = each.first, lines.setdefault((each.first.model, each.first.mechanism), {})
        cells["protects"] = row.adjacency
        if row.split in SPLITS:
            cells[row.split] = str(each.interval("ndcg"))
        elif error := each.interval("rmse"):
            test = "" if row.split == PREQUENTIAL else f" ({row.split})"
            cells["rmse"] = f"{error}{test}"
        else:
            cells["rmse"] = f"log-loss {each.interval('log_loss')}"
    names = ["protects", "rmse", *splits]
    head = ["model", "mechanism", "protects", "RMSE", *(f"nDCG@10 {split}" for split in splits)]
    return head, [[*key, *(cells.get(name, "-") for name in names)] for key, cells in lines.items()]


def write_csv(groups: Iterable[Group], place: Path) -> None:
    """Write a line for each model, mechanism and split, all measures with their intervals."""
    shared = ("model", "mechanism", "split", "adjacency", "epsilon")
    with place.open("w", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        ends = [f"{measure}{end}" for measure in MEASURES for end in ("", "_low", "_high")]
        lines.writerow([*shared, "seeds", *ends, "baseline", "seconds"])
        for each in groups:
            cells: list[object] = [getattr(each.first, name) for name in shared]
            cells.append(len(each.rows))
            for measure in MEASURES:
                found = each.interval(measure)
                low = [] if found is None else [found.mean - found.half, found.mean + found.half]
                cells += ["", "", ""] if found is None else [found.mean, *low]
            for measure in ("baseline", "seconds"):
                mean = each.interval(measure)
                cells.append("" if mean is None else mean.mean)
            lines.writerow(["" if cell is None else cell for cell in cells])

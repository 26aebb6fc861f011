"""All cells of a grid, those that are finished first read from the folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path

from producers.datasets.load import Dataset
from research.commands.experiment.cells import Share, measured
from research.commands.experiment.grid import Cell, Grid, cells_of
from research.commands.experiment.rows import Row, Rows
from stream_app.evaluation.results import ExperimentRow

Progress = Callable[[float, int, str], object]  # cells done, their total, the cell in work


def rows(
    data: Dataset,
    grid: Grid,
    out: Path | None = None,
    progress: Progress = lambda done, total, cell: None,  # noqa: ARG005 (a silent default)
    now: Callable[[], float] = time.monotonic,
) -> Iterator[ExperimentRow]:
    """Return the rows of a grid as they are finished; each is kept in the folder `out`, and read
    from there by a later run. ValueError, before any work, for what cannot be measured."""
    data = data.in_time_order(None)
    cells, kept = cells_of(grid, data), Rows(out, data)

    def each() -> Iterator[ExperimentRow]:
        for number, cell in enumerate(cells):
            share = _share(progress, number, len(cells), cell)
            share(0, 1)
            key = cell._asdict() | {"factors": grid.factors, "scope": grid.scope}
            yield _typed(kept.once(key, partial(_row, data, grid, cell, share, now)))
        progress(len(cells), len(cells), "")

    return each()


def _row(data: Dataset, grid: Grid, cell: Cell, share: Share, now: Callable[[], float]) -> Row:
    return asdict(measured(data, grid, cell, share, now))


def _share(progress: Progress, number: int, total: int, cell: Cell) -> Share:
    name = f"{cell.model} {cell.mechanism} {cell.split} {cell.seed}"
    return lambda done, parts: progress(number + done / max(parts, 1), total, name)


def _typed(row: Row) -> ExperimentRow:
    return ExperimentRow(**row | {"rmse_parts": tuple(row["rmse_parts"])})

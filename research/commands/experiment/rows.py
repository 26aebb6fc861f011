"""The rows of an experiment, kept as they are finished: a line of JSON each, in the folder `--out`.

A line holds the digest of what it is a measurement of: the ratings, the cell and the release. A run
measures only what no line holds, so that a killed one goes on; a torn last line is removed. The
file is locked while it is in use.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np

from producers.datasets.load import Dataset
from producers.journal.disk import Disk
from research.commands.experiment.cells import Share, measured, refuse_scope
from research.commands.experiment.grid import Cell, Grid, cells_of
from stream_app import __version__
from stream_app.errors import UserError
from stream_app.evaluation.results import ExperimentRow

NAME, _BEGIN = "rows.jsonl", b'{"id": '
Row = dict[str, Any]
Progress = Callable[[float, int, str], object]  # cells done, their total, the cell in work


class Rows:
    """The file of rows in a folder, which is made; without a folder nothing is kept."""

    def __init__(self, folder: Path | None, data: Dataset) -> None:
        self._data, self._folder = _digest_of(data), folder
        self._known: dict[str, Row] = {}
        self._file: BinaryIO | None = None
        if folder is None:
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = (folder / NAME).open("a+b")
            Disk().lock(self._file.fileno())
            self._read(self._file)
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise self._refused(error) from None
            raise

    def close(self) -> None:
        """Let another run use the folder."""
        if self._file is not None:
            self._file.close()

    def once(self, key: Row, run: Callable[[], Row]) -> Row:
        """Return the row of a measurement; it runs, and is kept, where no line holds it."""
        name = self._id(key)
        if name not in self._known:
            self._known[name] = run()
            self._append({"id": name, "data": self._data, "row": self._known[name]})
        return self._known[name]

    def _append(self, line: Row) -> None:
        if self._file is None:
            return
        try:
            self._file.write(json.dumps(line).encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._refused(error) from None

    def _read(self, file: BinaryIO) -> None:
        file.seek(0)
        *lines, torn = file.read().split(b"\n")  # a newline ends a whole line
        for number, line in enumerate(lines, 1):
            try:
                found = json.loads(line)
                name, data, row = found["id"], found["data"], found["row"]
            except (ValueError, KeyError, TypeError):
                raise _foreign(file.name, number) from None
            if data != self._data:
                raise UserError(
                    f"{file.name}: holds an experiment on other ratings; choose another folder "
                    "with --out"
                )
            self._known[name] = row
        if torn[: len(_BEGIN)] != _BEGIN[: len(torn)]:
            raise _foreign(file.name, len(lines) + 1)
        file.truncate(file.tell() - len(torn))

    def _refused(self, error: OSError) -> UserError:
        if isinstance(error, BlockingIOError):
            return UserError(
                f"--out {self._folder}: another experiment writes there; wait for its end, or "
                "choose another folder"
            )
        return UserError(
            f"--out {self._folder}: cannot be written ({error.strerror}); choose another folder"
        )

    def _id(self, key: Row) -> str:
        named = json.dumps([self._data, __version__, key], sort_keys=True)
        return blake2b(named.encode(), digest_size=12).hexdigest()


def _foreign(name: str, number: int) -> UserError:
    return UserError(
        f"{name}: line {number} is no row of an experiment; delete the line, or choose another "
        "folder with --out"
    )


def _digest_of(data: Dataset) -> str:
    """Return a digest of the ratings, their times and their scale; not of their place."""
    data = data.in_time_order(None)
    digest = blake2b(str(data.scale).encode(), digest_size=16)
    for column in (data.users, data.items, data.levels, data.timestamps):
        if column is not None:
            digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()


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
    cells = cells_of(grid, data)
    refuse_scope(data, grid, cells)
    kept = Rows(out, data)

    def each() -> Iterator[ExperimentRow]:
        with closing(kept):
            for number, cell in enumerate(cells):
                share = _share(progress, number, len(cells), cell)
                share(0, 1)
                key = cell._asdict() | {"factors": grid.factors, "scope": grid.scope}
                row = kept.once(key, partial(_row, data, grid, cell, share, now))
                yield msgspec.convert(row, ExperimentRow)
        progress(len(cells), len(cells), "")

    return each()


def _row(data: Dataset, grid: Grid, cell: Cell, share: Share, now: Callable[[], float]) -> Row:
    return asdict(measured(data, grid, cell, share, now))


def _share(progress: Progress, number: int, total: int, cell: Cell) -> Share:
    name = f"{cell.model} {cell.mechanism} {cell.split} {cell.seed}"
    return lambda done, parts: progress(number + done / max(parts, 1), total, name)

"""Links of trust between users, from a file.

    *.npz           arrays truster, trustee
    *.csv           header truster,trustee
    *.tsv, *.txt    truster, trustee by tab or space, no header; more columns are not read

Ids are integers or text, as in the file of ratings.
"""

from __future__ import annotations

import csv
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.errors import UserError

COLUMNS = ("truster", "trustee")
_KINDS = ".npz and .csv with truster and trustee, or .tsv and .txt with two columns"
Ids = NDArray[np.int64] | NDArray[np.str_]


class Trust(NamedTuple):
    """Who trusts (e,), and who is trusted."""

    truster: Ids
    trustee: Ids


def read_trust(path: Path) -> Trust:
    """Return the links of a file; UserError where it holds none."""
    if not path.is_file():
        raise UserError(f"{path}: there is no such file; links of trust come as {_KINDS}")
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as file:
                columns = [file[name] for name in COLUMNS]
        elif path.suffix == ".csv":
            with path.open(encoding="utf-8-sig", newline="") as lines:
                rows = list(csv.DictReader(lines))
            columns = [np.array([row[name] for row in rows]) for name in COLUMNS]
        elif path.suffix in (".tsv", ".txt"):
            pairs = [line.split()[:2] for line in path.read_text("utf-8-sig").splitlines() if line]
            columns = [np.array([pair[side] for pair in pairs]) for side in (0, 1)]
        else:
            raise UserError(f"{path}: not a file of links; they come as {_KINDS}")
    except (ValueError, KeyError, TypeError, IndexError, csv.Error, zipfile.BadZipFile):
        raise UserError(f"{path}: holds no links of trust; they come as {_KINDS}") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    if (
        not len(columns[0])
        or {each.ndim for each in columns} != {1}
        or len(set(map(len, columns))) > 1
    ):
        raise UserError(f"{path}: holds no links of trust; they come as {_KINDS}")
    return Trust(*(_ids(column) for column in columns))


def _ids(column: NDArray[np.generic]) -> Ids:
    """Return integers where all are, else text."""
    if column.dtype.kind in "iu":
        return column.astype(np.int64)
    text = column.astype(np.str_)
    try:
        numbers = text.astype(np.int64)
    except (ValueError, OverflowError):
        return text
    return numbers if (numbers.astype(np.str_) == text).all() else text

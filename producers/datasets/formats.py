"""File formats of ratings, read into columns.

    ratings.dat, *.dat     user::item::rating::timestamp            items: movies.dat
    u.data, *.data, *.tsv  user TAB item TAB rating TAB timestamp   items: u.item
    *.csv                  header userId,movieId,rating[,timestamp] or user,item,rating[,timestamp]
                           in any order                             items: movies.csv
    *.npz                  arrays user, item, rating[, timestamp]   items: movies.npz
    *.zip                  a MovieLens archive with one of the first three inside

numpy only; no file is trusted to hold objects (`allow_pickle=False`). A message names the row,
counted from 1 as an editor does, never its content.

A data set of ratings as numpy arrays in one .npz file: user, item, rating[, timestamp].
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from producers.datasets.columns import KINDS, Columns, check_ids
from producers.datasets.descriptions import descriptions_beside, descriptions_in
from producers.datasets.item_files import recognised_as
from producers.datasets.table_files import NAMES, read_table
from stream_app.errors import UserError

_TABLES = ("ratings.dat", "ratings.csv", "u.data")  # of a MovieLens archive
_LONGEST = 1 << 20  # of a first line
_DESCRIPTIONS = ("movies.dat", "movies.csv", "u.item")


def holds_ratings(path: Path) -> bool:
    """Return whether a file is one of ratings: by its name, or what the first line of a table
    names."""
    if path.suffix in (".npz", ".zip", ".dat", ".data"):
        return True
    if path.suffix not in (".csv", ".tsv") or not path.is_file():
        return False
    with path.open(encoding="utf-8-sig", errors="replace") as lines:
        words = re.split("[,;\t]", lines.readline(_LONGEST).strip().lower())
    if path.suffix == ".tsv" and "item" not in recognised_as(tuple(words)).values():
        return True  # without a header
    return {"user", "rating"} <= {NAMES.get(word.strip('" '), "") for word in words}


def read(path: Path) -> Columns:
    """Return the columns of a file of ratings; raises `UserError` for anything else."""
    if not path.exists():
        raise UserError(f"{path}: there is no such file; ratings come as {KINDS}")
    if path.is_dir():
        raise UserError(f"{path}: is a directory; give the file of ratings in it")
    try:
        if path.suffix == ".npz":
            return read_npz(path)
        if path.suffix == ".zip":
            return _read_zip(path)
        if path.suffix not in (".dat", ".data", ".tsv", ".csv"):
            raise UserError(f"{path}: not a file of ratings; they come as {KINDS}")
        with path.open(encoding="utf-8-sig", errors="strict", newline="") as lines:
            return read_table(lines, path.suffix, str(path), descriptions_beside(path))
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not text in UTF-8; ratings come as {KINDS}") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None


def _read_zip(path: Path) -> Columns:
    try:
        with zipfile.ZipFile(path) as archive:
            names = {Path(member).name: member for member in archive.namelist()}
            found = next((name for name in _TABLES if name in names), None)
            if found is None:
                raise UserError(f"{path}: holds none of {', '.join(_TABLES)}")
            described = next(
                (
                    descriptions_in(name, archive.read(names[name]))
                    for name in _DESCRIPTIONS
                    if name in names
                ),
                None,
            )
            with archive.open(names[found]) as binary:
                text = io.TextIOWrapper(binary, "utf-8-sig", newline="")
                return read_table(text, Path(found).suffix, f"{path}/{found}", described)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError):
        raise UserError(f"{path}: is not a whole zip archive; fetch it again") from None


def read_npz(path: Path) -> Columns:
    """Return the columns of a .npz file; rows are counted from 1."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            missing = [name for name in ("user", "item", "rating") if name not in archive]
            if missing:
                raise UserError(
                    f"{path}: has no array {missing[0]!r}; it needs user, item and rating"
                )
            users, items, ratings = (archive[name] for name in ("user", "item", "rating"))
            times = archive.get("timestamp")
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, AttributeError, TypeError):
        raise UserError(f"{path}: is not a npz file of plain arrays") from None
    columns = [users, items, ratings] + ([] if times is None else [times])
    if any(column.ndim != 1 or len(column) != len(users) for column in columns):
        raise UserError(f"{path}: user, item and rating must be columns of one length")
    if not len(users):
        raise UserError(f"{path}: has no ratings")
    if any(column.dtype.kind not in "iuf" for column in columns[2:]):
        raise UserError(f"{path}: rating and timestamp must be arrays of numbers")
    if any(ids.dtype.kind not in "iuU" for ids in (users, items)):
        raise UserError(f"{path}: user and item must be arrays of integers or text")
    for word, column in zip(("rating", "timestamp"), columns[2:], strict=False):
        if len(bad := np.flatnonzero(~np.isfinite(column))):
            raise UserError(f"{path}: the {word} in row {int(bad[0]) + 1} is not a number")
    users, items = map(_ids, columns[:2])
    check_ids(users, 1, str(path), "user")
    check_ids(items, 1, str(path), "item")
    stamps = None if times is None else np.floor(times).astype(np.int64)
    return Columns(users, items, _widened(ratings), stamps, descriptions_beside(path))


def _ids(ids: NDArray[Any]) -> NDArray[Any]:
    """Return ids as text or int64; unsigned ones beyond it as their decimal text."""
    if ids.dtype.kind == "u" and (ids >= 2**63).any():
        return ids.astype(np.str_)
    return ids if ids.dtype.kind == "U" else ids.astype(np.int64)


def _widened(ratings: NDArray[Any]) -> NDArray[np.float64]:
    """Return float64; a short float is the decimal that was put into it (3.1, not 3.0999999)."""
    wide = ratings.astype(np.float64)
    short = ratings.dtype.kind == "f" and ratings.dtype.itemsize < 8
    return np.round(wide, 6) if short else wide

"""A data set of ratings as numpy arrays in one .npz file: user, item, rating[, timestamp]."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from producers.datasets.columns import Columns, check_ids
from producers.datasets.descriptions import descriptions_beside
from stream_app.errors import UserError


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
    numeric = [ratings] if times is None else [ratings, times]
    if any(column.dtype.kind not in "iuf" for column in numeric):
        raise UserError(f"{path}: rating and timestamp must be arrays of numbers")
    if any(ids.dtype.kind not in "iuU" for ids in (users, items)):
        raise UserError(f"{path}: user and item must be arrays of integers or text")
    numbers = _widened(ratings)
    if not np.isfinite(numbers).all():
        bad = int(np.flatnonzero(~np.isfinite(numbers))[0])
        raise UserError(f"{path}: the rating in row {bad + 1} is not a number")
    stamps = None
    if times is not None:
        if not np.isfinite(times).all():
            raise UserError(f"{path}: the timestamps hold something that is not a number")
        stamps = np.floor(times).astype(np.int64)
    users, items = _npz_ids(users), _npz_ids(items)
    check_ids(users, 1, str(path), "user")
    check_ids(items, 1, str(path), "item")
    return Columns(users, items, numbers, stamps, descriptions_beside(path))


def _npz_ids(ids: NDArray[Any]) -> NDArray[Any]:
    return ids if ids.dtype.kind == "U" else ids.astype(np.int64)


def _widened(ratings: NDArray[Any]) -> NDArray[np.float64]:
    """Return float64; a short float is the decimal that was put into it (3.1, not 3.0999999)."""
    wide = ratings.astype(np.float64)
    short = ratings.dtype.kind == "f" and ratings.dtype.itemsize < 8
    return np.round(wide, 6) if short else wide

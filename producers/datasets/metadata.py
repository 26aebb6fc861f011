"""Public columns of items from the files beside ratings: genres, and the year in a title.

    movies.npz   genre_names, genres (items, g), year        movies.dat, movies.csv   a | b | c
    u.item       19 flags at the end of a line

Columns of an item (n, g + 2): 1 for each of its genres, the year in units of 15 from 1985, and its
square. An item without metadata has zeros.
"""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.errors import UserError

FILES = ("movies.npz", "movies.dat", "movies.csv", "u.item")
_YEAR = re.compile(r"\((\d{4})\)\s*$")
_FLAGS = 19
_MIDDLE, _SPAN, _EARLIEST, _LATEST = 1985.0, 15.0, -3.0, 2.0


class ItemRow(NamedTuple):
    """The genres of an item and its year, None where the title has none."""

    genres: tuple[str, ...]
    year: int | None


def metadata_beside(path: Path) -> dict[str, ItemRow]:
    """Return item id -> genres and year from a file in the folder of `path`; raises UserError where
    no file of metadata can be read."""
    for name in FILES:
        beside = path.parent / name
        if beside.is_file() and beside != path:
            try:
                return _rows_in(name, beside.read_bytes())
            except (ValueError, KeyError, IndexError, csv.Error, zipfile.BadZipFile) as error:
                raise UserError(f"{beside}: holds no genres and titles of items") from error
    raise UserError(
        f"{path}: no metadata of its items beside it; put {', '.join(FILES[:-1])} or "
        f"{FILES[-1]} in its folder"
    )


def columns(rows: Mapping[str, ItemRow], items: list[str]) -> NDArray[np.float64]:
    """Return the columns (n, genres + 2) of some items."""
    genres = sorted({genre for row in rows.values() for genre in row.genres})
    place = {genre: number for number, genre in enumerate(genres)}
    found = np.zeros((len(items), len(genres) + 2))
    for number, item in enumerate(items):
        row = rows.get(item, ItemRow((), None))
        for genre in row.genres:
            found[number, place[genre]] = 1
        if row.year is not None:
            year = min(max((row.year - _MIDDLE) / _SPAN, _EARLIEST), _LATEST)
            found[number, -2:] = year, year * year
    return found


def _rows_in(name: str, content: bytes) -> dict[str, ItemRow]:
    if name == "movies.npz":
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            names = [str(each) for each in archive["genre_names"].tolist()]
            flags, years = archive["genres"].astype(bool), archive["year"].tolist()
            return {
                str(item): ItemRow(_named(names, flags[number]), int(years[number]) or None)
                for number, item in enumerate(archive["item"].tolist())
            }
    text = content.decode("utf-8-sig" if name == "movies.csv" else "latin-1")
    if name == "movies.csv":
        cells = list(csv.reader(io.StringIO(text)))[1:]
    else:
        cells = [line.split("::" if name == "movies.dat" else "|") for line in text.splitlines()]
    cells = [row for row in cells if any(row)]
    if name == "u.item":
        names = [f"genre {number}" for number in range(_FLAGS)]
        return {
            row[0]: ItemRow(_named(names, np.array(row[-_FLAGS:]) == "1"), _year(row[1]))
            for row in cells
        }
    return {row[0]: ItemRow(tuple(row[2].split("|")), _year(row[1])) for row in cells}


def _named(names: list[str], flags: NDArray[np.bool_]) -> tuple[str, ...]:
    return tuple(name for name, flag in zip(names, flags, strict=True) if flag)


def _year(title: str) -> int | None:
    found = _YEAR.search(title)
    return int(found[1]) if found else None

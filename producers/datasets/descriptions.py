"""What is public of items, from the files beside ratings: title, genres, year.

    movies.dat               item, title, genres with | between them
    movies.csv               the same, by its header (`producers.datasets.item_files`)
    u.item                   item, title, ..., a flag for each of 19 genres
    movies.npz               item, title[, genre_names (g,), genres (items, g)][, year]

A title ends with its year in brackets. All of it is optional, so an unreadable file is ignored, and
of the genres those that a catalogue can hold are kept.
"""

from __future__ import annotations

import csv
import io
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from producers.datasets.columns import Description, Descriptions
from producers.datasets.item_files import NO_GENRES, recognised_as, year_in
from producers.datasets.table_files import text_column
from stream_app.errors import UserError
from stream_app.wire import Item, parse_item
from stream_app.wire.limits import MAX_YEAR
from stream_app.wire.messages import genres_among

FILES = ("movies.dat", "movies.csv", "u.item", "movies.npz")
# Of MovieLens-100K, in the order of the flags; the first says that none is known.
_FLAGS = (
    *("", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary"),
    *("Drama", "Fantasy", "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi"),
    *("Thriller", "War", "Western"),
)
_UNREADABLE = (
    *(ValueError, LookupError, TypeError, AttributeError, EOFError, OSError),
    *(csv.Error, zipfile.BadZipFile, zlib.error, UserError),
)


Metadata = Mapping[Item, tuple[Sequence[str], int | None]]
"""Genres and year by the item of an id, as `Descriptions`."""


def metadata_of(described: Descriptions | None, file: object) -> Metadata:
    """Return genres and years by item id; UserError where a file has none of its items."""
    found = {item: (each.genres, each.year) for item, each in (described or {}).items()}
    if not any(genres or year for genres, year in found.values()):
        raise UserError(
            f"{file}: no genres and years of its items in it or beside it; put {', '.join(FILES)} "
            "in its folder, one of them"
        )
    return found


def descriptions_beside(path: Path) -> Descriptions | None:
    """Return item id -> description from a file in the folder of a file of ratings, if any."""
    for name in FILES:
        beside = path.parent / name
        if beside.is_file() and beside != path:
            return descriptions_in(name, beside.read_bytes())
    return None


def descriptions_in(name: str, content: bytes) -> Descriptions | None:
    """Return item id -> description from the content of a file; None if it cannot be read."""
    try:
        if name == "movies.npz":
            return _joined(_in_arrays(content))
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            if name == "movies.csv":
                raise
            text = content.decode("latin-1")  # as MovieLens writes titles
        if name == "movies.csv":
            head, *rows = filter(None, csv.reader(io.StringIO(text)))
            known = recognised_as(tuple(head))
            columns = [known.get(column, "") for column in head]
        else:
            separator = "::" if name == "movies.dat" else "|"
            columns = ["item", "title", "categories"]
            rows = [line.split(separator) for line in re.split("\r?\n", text) if line]
        found = [dict(zip(columns, row, strict=False)) for row in rows]
        ids = text_column([row["item"] for row in found], 1, name, "item")
        genres = map(_flagged, rows) if name == "u.item" else map(_listed, found)
        described = (
            _description(row["title"], each) for row, each in zip(found, genres, strict=True)
        )
        return _joined(zip(ids.tolist(), described, strict=True))
    except _UNREADABLE:
        return None


def _in_arrays(content: bytes) -> Iterator[tuple[int | str, Description]]:
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        items, titles = archive["item"].tolist(), archive["title"].tolist()
        names: list[Any] = archive["genre_names"].tolist() if "genre_names" in archive else []
        flags = archive["genres"].astype(bool).tolist() if names else [[]] * len(items)
        years = archive["year"].tolist() if "year" in archive else [0] * len(items)
    for item, title, row, year in zip(items, titles, flags, years, strict=True):
        genres = [str(name) for name, has in zip(names, row, strict=True) if has]
        yield item, _description(str(title), genres, int(year))


def _joined(found: Iterable[tuple[int | str, Description]]) -> dict[Item, Description]:
    """Return descriptions by item; the last of an item counts."""
    return {parse_item(str(id_)): each for id_, each in found}


def _description(title: str, genres: Iterable[str], year: int = 0) -> Description:
    known = year if 1 <= year <= MAX_YEAR else year_in(title) if not year else None
    return Description(title, genres_among(genres), known)


def _listed(row: dict[str, str]) -> list[str]:
    genres = row.get("categories", "").split("|")
    return [genre for genre in genres if genre not in ("", NO_GENRES)]


def _flagged(row: list[str]) -> list[str]:
    flags = row[-len(_FLAGS) :] if len(row) > len(_FLAGS) else []
    return [name for name, flag in zip(_FLAGS, flags, strict=False) if flag == "1"]

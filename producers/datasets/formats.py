"""The files in which ratings come, read into columns.

    ratings.dat, *.dat     user::item::rating::timestamp            titles: movies.dat
    u.data, *.data, *.tsv  user TAB item TAB rating TAB timestamp   titles: u.item
    *.csv                  header userId,movieId,rating[,timestamp] or user,item,rating[,timestamp]
                           in any order                             titles: movies.csv
    *.npz                  arrays user, item, rating[, timestamp]   titles: movies.npz (item, title)
    *.zip                  a MovieLens archive with one of the first three inside

Ids are integers when every one of the column is, else text, without the blanks around it. numpy
only; no file is trusted to hold objects (`allow_pickle=False`). A refusal names the row, counted
from 1 as an editor does, and never what stands in it.
"""

from __future__ import annotations

import csv
import io
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_app.errors import UserError

KINDS = (
    "ml-1m.zip, ratings.dat, u.data, ratings.csv, "
    "*.csv or *.npz with columns user,item,rating[,timestamp]"
)
_BLOCK = 100_000  # lines turned into arrays at a time: text takes ten times their memory
# Every id of a column takes the room of its longest; a user id has 1024 bytes at most anyway.
_ID_CHARACTERS = 1024
_NAMES = {"user": "user", "userid": "user", "item": "item", "itemid": "item", "movieid": "item",
          "rating": "rating", "timestamp": "timestamp"}  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)  # raw columns have no place in a log
class Columns:
    """The rows of a file: ids (n,) int64 or text, ratings (n,) float64, timestamps (n,) int64."""

    users: NDArray[Any]
    items: NDArray[Any]
    ratings: NDArray[np.float64]
    timestamps: NDArray[np.int64] | None
    titles: Mapping[int | str, str] | None


def read(path: Path) -> Columns:
    """Return the columns of a file of ratings; raises `UserError` for anything else."""
    if not path.exists():
        raise UserError(f"{path}: there is no such file; ratings come as {KINDS}")
    if path.is_dir():
        raise UserError(f"{path}: is a directory; give the file of ratings in it")
    try:
        if path.suffix == ".npz":
            return _read_npz(path)
        if path.suffix == ".zip":
            return _read_zip(path)
        if path.suffix not in (".dat", ".data", ".tsv", ".csv"):
            raise UserError(f"{path}: not a file of ratings; they come as {KINDS}")
        with path.open(encoding="utf-8-sig", errors="strict", newline="") as lines:
            return _read_table(lines, path.suffix, str(path), _titles_beside(path))
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not text in UTF-8; ratings come as {KINDS}") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None


# --- tables of text -----------------------------------------------------------------------------


def _read_table(
    lines: Iterable[str], suffix: str, name: str, titles: Mapping[int | str, str] | None
) -> Columns:
    rows = _split(lines, suffix)
    header, first_row = ["user", "item", "rating", "timestamp"], 1
    try:
        first = next(rows, None)
        if first is None:
            raise UserError(f"{name}: is empty; ratings come as {KINDS}")
        if suffix == ".csv":
            header, first_row = [_NAMES.get(cell.strip().lower(), "") for cell in first], 2
            if not {"user", "item", "rating"} <= set(header):
                raise UserError(
                    f"{name}: its first line must name the columns user,item,rating "
                    "(userId,movieId,rating do too)"
                )
        else:
            rows = chain([first], rows)
        blocks = list(_blocks(rows, header, first_row, name))
    except csv.Error as error:
        raise UserError(f"{name}: is not a table of text ({error})") from None
    if not blocks:
        raise UserError(f"{name}: has no ratings")
    users, items, ratings, times = (list(column) for column in zip(*blocks, strict=True))
    stamped = not any(column is None for column in times)
    return Columns(
        _ids(np.concatenate(users)),
        _ids(np.concatenate(items)),
        np.concatenate(ratings),
        np.concatenate(times) if stamped else None,
        titles,
    )


def _split(lines: Iterable[str], suffix: str) -> Iterator[list[str]]:
    if suffix == ".csv":
        return csv.reader(lines)
    separator = "::" if suffix == ".dat" else "\t"
    return (line.rstrip("\r\n").split(separator) for line in lines)


_Block = tuple[NDArray[Any], NDArray[Any], NDArray[np.float64], NDArray[np.int64] | None]


def _blocks(
    rows: Iterator[list[str]], header: list[str], first_row: int, name: str
) -> Iterator[_Block]:
    """Yield the rows as arrays of at most `_BLOCK`; refuse the first row that is none by number."""
    place = {word: header.index(word) for word in ("user", "item", "rating")}
    time_place = header.index("timestamp") if "timestamp" in header else None
    needed = max(place.values()) + 1
    while block := list(islice(rows, _BLOCK)):
        while block and block[-1] in ([], [""]):  # a blank line at the end of the file
            block.pop()
        short = next((i for i, row in enumerate(block) if len(row) < needed), None)
        if short is not None:
            raise UserError(
                f"{name}: row {first_row + short} has {len(block[short])} fields "
                f"and needs {needed} (user, item, rating)"
            )
        if not block:
            return
        times = None
        if time_place is not None and all(len(row) > time_place for row in block):
            times = _whole([row[time_place] for row in block], first_row, name)
        yield (
            _words([row[place["user"]].strip() for row in block], first_row, name, "user"),
            _words([row[place["item"]].strip() for row in block], first_row, name, "item"),
            _numbers([row[place["rating"]] for row in block], first_row, name, "rating"),
            times,
        )
        first_row += len(block)


def _words(texts: list[str], first_row: int, name: str, word: str) -> NDArray[np.str_]:
    if max(map(len, texts)) > _ID_CHARACTERS:
        bad = next(i for i, text in enumerate(texts) if len(text) > _ID_CHARACTERS)
        raise UserError(
            f"{name}: the {word} in row {first_row + bad} has {len(texts[bad])} characters; "
            f"an id has at most {_ID_CHARACTERS}"
        )
    return np.array(texts)


def _numbers(texts: list[str], first_row: int, name: str, word: str) -> NDArray[np.float64]:
    try:
        numbers = np.fromiter(map(float, texts), np.float64, len(texts))
        if np.isfinite(numbers).all():
            return numbers
    except ValueError:
        pass
    bad = next(i for i, text in enumerate(texts) if not _is_finite(text))
    raise UserError(f"{name}: the {word} in row {first_row + bad} is not a number")


def _whole(texts: list[str], first_row: int, name: str) -> NDArray[np.int64]:
    numbers = _numbers(texts, first_row, name, "timestamp")
    return np.floor(np.clip(numbers, -(2.0**62), 2.0**62)).astype(np.int64)


def _is_finite(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def _ids(texts: NDArray[Any]) -> NDArray[Any]:
    """Return text ids as integers where every one is an integer as it is usually written.

    007 stays text: else that user would be another one as soon as one id of the file is a word.
    """
    try:
        numbers = texts.astype(np.int64)
    except (ValueError, OverflowError):
        return texts
    return numbers if (numbers.astype(texts.dtype) == texts).all() else texts


# --- archives -------------------------------------------------------------------------------------


def _read_zip(path: Path) -> Columns:
    wanted = ("ratings.dat", "ratings.csv", "u.data")
    try:
        with zipfile.ZipFile(path) as archive:
            names = {Path(member).name: member for member in archive.namelist()}
            found = next((name for name in wanted if name in names), None)
            if found is None:
                raise UserError(f"{path}: holds none of {', '.join(wanted)}")
            titles = next(
                (
                    _titles(name, archive.read(names[name]))
                    for name in ("movies.dat", "movies.csv", "u.item")
                    if name in names
                ),
                None,
            )
            with archive.open(names[found]) as binary:
                text = io.TextIOWrapper(binary, "utf-8-sig", newline="")
                return _read_table(text, Path(found).suffix, f"{path}/{found}", titles)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError):
        raise UserError(f"{path}: is not a whole zip archive; fetch it again") from None


def _read_npz(path: Path) -> Columns:
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
    return Columns(_npz_ids(users), _npz_ids(items), numbers, stamps, _titles_beside(path))


def _npz_ids(ids: NDArray[Any]) -> NDArray[Any]:
    return ids if ids.dtype.kind == "U" else ids.astype(np.int64)


def _widened(ratings: NDArray[Any]) -> NDArray[np.float64]:
    """Return float64; a short float is the decimal that was put into it (3.1, not 3.0999999)."""
    wide = ratings.astype(np.float64)
    short = ratings.dtype.kind == "f" and ratings.dtype.itemsize < 8
    return np.round(wide, 6) if short else wide


# --- titles ---------------------------------------------------------------------------------------


def _titles_beside(path: Path) -> Mapping[int | str, str] | None:
    for name in ("movies.dat", "movies.csv", "u.item", "movies.npz"):
        beside = path.parent / name
        if beside.is_file() and beside != path:
            return _titles(name, beside.read_bytes())
    return None


def _titles(name: str, content: bytes) -> Mapping[int | str, str] | None:
    """Return item id -> title; None where the file is something else: titles are decoration."""
    try:
        if name == "movies.npz":
            with np.load(io.BytesIO(content), allow_pickle=False) as archive:
                pairs = zip(archive["item"].tolist(), archive["title"].tolist(), strict=True)
                return {item: str(title) for item, title in pairs}
        text = content.decode("utf-8-sig" if name == "movies.csv" else "latin-1")
        if name == "movies.csv":
            rows = list(csv.reader(io.StringIO(text)))[1:]
        else:
            separator = "::" if name == "movies.dat" else "|"
            rows = [line.split(separator) for line in text.splitlines() if line]
        ids = _ids(_words([row[0] for row in rows], 1, name, "item")).tolist()
        return {item: row[1] for item, row in zip(ids, rows, strict=True)}
    except (ValueError, KeyError, IndexError, csv.Error, zipfile.BadZipFile, UserError):
        return None

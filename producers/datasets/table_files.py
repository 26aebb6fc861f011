"""Ratings as a table of text: one rating a line, fields between `::`, tabs or commas.

Ids are integers if every id of the column is one in its usual form, else text as it is.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from producers.datasets.columns import (
    KINDS,
    Columns,
    Descriptions,
    check_ids,
    integers_or_text,
)
from stream_app.errors import UserError

_BLOCK = 100_000  # lines parsed at a time: text takes ten times the memory of arrays
# Every id of a column takes the memory of the longest; a user id has at most 1024 bytes anyway.
_ID_CHARACTERS = 1024
_LONGEST = 1 << 20  # of a line, in characters
NAMES = {"user": "user", "userid": "user", "item": "item", "itemid": "item", "movieid": "item",
          "rating": "rating", "timestamp": "timestamp"}  # fmt: skip


def bounded_lines(file: TextIO, name: str) -> Iterator[str]:
    """Yield the lines of a file; UserError for one that is longer than any row of a table, before
    it is held."""
    for number, line in enumerate(iter(lambda: file.readline(_LONGEST), ""), 1):
        if len(line) == _LONGEST:
            raise UserError(
                f"{name}: line {number} is above {_LONGEST:,} characters, which no row is; give a "
                "file with a row a line"
            )
        yield line


def read_table(file: TextIO, suffix: str, name: str, described: Descriptions | None) -> Columns:
    """Return the columns of a table; `suffix` names the separator, `name` the file in messages."""
    rows = _split(bounded_lines(file, name), suffix)
    header, first_row = ["user", "item", "rating", "timestamp"], 1
    try:
        first = next(rows, None)
        if first is None:
            raise UserError(f"{name}: is empty; ratings come as {KINDS}")
        if suffix == ".csv":
            header, first_row = [NAMES.get(cell.strip().lower(), "") for cell in first], 2
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
    user_ids = integers_or_text(np.concatenate(users))
    item_ids = integers_or_text(np.concatenate(items))
    check_ids(user_ids, first_row, name, "user")
    check_ids(item_ids, first_row, name, "item")
    return Columns(
        user_ids,
        item_ids,
        np.concatenate(ratings),
        np.concatenate(times) if stamped else None,
        described,
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
    """Yield the rows as arrays of at most `_BLOCK`; UserError names the first short row."""
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
            given = _numbers([row[time_place] for row in block], first_row, name, "timestamp")
            times = np.floor(np.clip(given, -(2.0**62), 2.0**62)).astype(np.int64)
        yield (
            text_column([row[place["user"]] for row in block], first_row, name, "user"),
            text_column([row[place["item"]] for row in block], first_row, name, "item"),
            _numbers([row[place["rating"]] for row in block], first_row, name, "rating"),
            times,
        )
        first_row += len(block)


def text_column(texts: list[str], first_row: int, name: str, word: str) -> NDArray[np.str_]:
    """Return ids as an array; UserError for an id that is too long or holds the character NUL."""
    is_odd = max(map(len, texts)) > _ID_CHARACTERS or "\0" in "".join(texts)
    for row, text in enumerate(texts if is_odd else (), first_row):
        if len(text) > _ID_CHARACTERS:
            raise UserError(
                f"{name}: the {word} in row {row} has {len(text)} characters; "
                f"an id has at most {_ID_CHARACTERS}"
            )
        if "\0" in text:  # numpy would drop it at the end of an id
            raise UserError(
                f"{name}: the {word} in row {row} holds the character NUL; give an id "
                "without it, or remove the row"
            )
    return np.array(texts)


def _numbers(texts: list[str], first_row: int, name: str, word: str) -> NDArray[np.float64]:
    numbers = np.fromiter(map(_number, texts), np.float64, len(texts))
    if len(bad := np.flatnonzero(~np.isfinite(numbers))):
        raise UserError(f"{name}: the {word} in row {first_row + int(bad[0])} is not a number")
    return numbers


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan

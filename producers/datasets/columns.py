"""The columns of a file of ratings, and the allowed ids.

    user   integer, or text of 1 to 1024 bytes of UTF-8 without NUL   (`producers.pseudonyms`)
    item   integer in 0 .. 2^63-1, or text of 1 to 128 bytes of UTF-8 (`stream_app.wire.key`)

A message names the file and the row, counted from 1 as an editor does, never an id or a rating.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from producers.pseudonyms import MAX_USER_BYTES
from stream_app.errors import UserError
from stream_app.wire import MAX_ITEM_BYTES, Item

KINDS = (
    "ml-1m.zip, ratings.dat, u.data, ratings.csv, "
    "*.csv or *.npz with columns user,item,rating[,timestamp]"
)
_ROWS = 65_536  # of a text column that are Python texts at a time
_BYTES = {"user": MAX_USER_BYTES, "item": MAX_ITEM_BYTES}


class Description(NamedTuple):
    """What is public of an item: title, genres and year, None where not known."""

    title: str = ""
    genres: tuple[str, ...] = ()
    year: int | None = None


Descriptions = Mapping[Item, Description]
"""By the item of an id (`stream_app.wire.parse_item`)."""


@dataclass(frozen=True, eq=False, repr=False)  # raw columns have no place in a log
class Columns:
    """The rows of a file: ids (n,) int64 or text, ratings (n,) float64, timestamps (n,) int64; and
    what is public of items, by id."""

    users: NDArray[Any]
    items: NDArray[Any]
    ratings: NDArray[np.float64]
    timestamps: NDArray[np.int64] | None
    described: Descriptions | None


def integers_or_text(texts: NDArray[Any]) -> NDArray[Any]:
    """Return text ids as integers if every id is an integer from 0 up in its usual form.

    Keys are equal either way (`stream_app.wire.key`): integers only take less memory.
    """
    try:
        numbers = texts.astype(np.int64)
    except (ValueError, OverflowError):
        return texts
    return numbers if ((numbers >= 0) & (numbers.astype(texts.dtype) == texts)).all() else texts


def check_ids(ids: NDArray[Any], first_row: int, source: str, word: str) -> None:
    """Raise UserError with the row of the first id that cannot be a `word` ("user" or "item").

    ids: (n,) int64 or text, of the rows `first_row` .. `first_row + n - 1` of the file `source`.
    """
    if ids.dtype.kind != "U":
        bad = np.flatnonzero(ids < 0)
        if word == "item" and len(bad):
            raise UserError(
                f"{source}: the item in row {first_row + int(bad[0])} is a negative number; give "
                f"a number from 0 to 2^63-1, or text of 1 to {_BYTES[word]} bytes"
            )
        return
    for start in range(0, len(ids), _ROWS):
        for row, text in enumerate(ids[start : start + _ROWS].tolist(), first_row + start):
            if defect := _defect(text, _BYTES[word]):
                raise UserError(
                    f"{source}: the {word} in row {row} {defect}; give 1 to {_BYTES[word]} bytes "
                    "of UTF-8 without NUL, or remove the row"
                )


def _defect(text: str, most: int) -> str | None:
    if "\0" in text:
        return "holds the character NUL"
    try:
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        return "is not valid Unicode (a lone surrogate)"
    if not size:
        return "is empty"
    return f"has {size} bytes" if size > most else None

"""A file of clean ratings that the user gives: one line a rating.

    item[,rating[,time]]        oldest first, or in the order of `time` where every line has one

`item` as `publish --item` takes it; `rating` on the user's scale, left out for an item that is
known to be liked; `time` any number that grows. A first line "item,..." names the columns and is
skipped. The file never leaves the device.
"""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path

from producers.device import scope
from producers.ranking.clean_history import RatedItem, newest_of_each, stars
from producers.scale import Scale
from stream_app import wire
from stream_app.errors import UserError


def rated_in(path: Path, scale: Scale) -> list[RatedItem]:
    """Return the items of a file, oldest first, each once; UserError names a bad line, but never
    its rating."""
    timed = []
    for number, line in _lines(path):
        try:
            timed.append(_row(line, scale))
        except ValueError as error:
            raise UserError(f"{path}: line {number}: {error}") from None
    if not timed:
        raise UserError(f"{path}: holds no item; write one item,rating,time per line")
    times = [time for time, _ in timed if time is not None]
    if times and len(times) != len(timed):
        raise UserError(f"{path}: {len(times)} of {len(timed)} lines have a time: give all or none")
    if times:
        timed.sort(key=lambda row: row[0] or 0.0)
    return newest_of_each([rated for _, rated in timed])


def keys_in(path: Path) -> frozenset[int]:
    """Return the keys of the items in a file, whatever stands after them on the line. A line is
    also read as an id with commas. None where nothing was rated yet: a refusal there, and none
    later, would show the server the first rating."""
    found = set()
    for number, line in _lines(path):
        try:
            found.add(wire.key(line.split(",")[0]))
        except ValueError as error:
            raise UserError(f"{path}: line {number}: {error}") from None
        with suppress(ValueError):  # longer than an id may be
            found.add(wire.key(line))
    return frozenset(found)


def _lines(path: Path) -> list[tuple[int, str]]:
    """Return the numbered lines that hold an item."""
    path = path.expanduser()
    data = scope.contents(path, "is it a list of ratings?")
    return [
        (number, line)
        for number, line in scope.numbered(path, data, "one item,rating,time")
        if number > 1 or line.split(",")[0].strip().lower() != "item"
    ]


def _row(line: str, scale: Scale) -> tuple[float | None, RatedItem]:
    """Return the time, if any, and the rated item of a line."""
    name, *more = line.split(",")
    if len(more) > 2:
        raise ValueError(f"{len(more) + 1} fields; write item,rating,time")
    given = stars(_number(more[0], "rating"), scale) if more and more[0].strip() else None
    time = _number(more[1], "time") if len(more) > 1 else None
    return time, RatedItem(wire.parse_item(name), wire.key(name), given)


def _number(text: str, what: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"the {what} is not a number")
    return number

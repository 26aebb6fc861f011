"""One rating as a line of text, for one account or for a population.

    one account     item,rating[,time]
    a population    user,item,rating[,time]
    both            {"user": "ann", "item": "1193", "rating": 4}      for ids with a comma or a line
                    break, or that begin with #, { or a byte order mark

A user is named by the id that was enrolled, an item by its own: nothing is trimmed. A line is
decoded and checked by itself, and what is wrong with it is one sentence without its rating. A line
that names the columns ("item,rating"), an empty line and one that begins with # hold no rating.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import msgspec

from stream_app import wire

LONGEST = 16_384  # bytes of a line


@dataclass(frozen=True, repr=False)  # a raw rating has no place in a log
class RatedLine:
    """The rating of one line; `user` is None where the line does not name one."""

    user: str | None
    item: wire.Item
    raw_rating: float


class _Json(msgspec.Struct, forbid_unknown_fields=True):
    item: int | str
    rating: float
    user: int | str | None = None
    time: float | None = None


_decoder = msgspec.json.Decoder(_Json)


def parse(line: bytes, *, named: bool) -> RatedLine | None:
    """Return the rating in a line, None where it holds none; `named`: lines name their user.

    ValueError for any other line, never with its rating.
    """
    if len(line) > LONGEST:
        raise ValueError(f"{len(line)} bytes: a line has at most {LONGEST}")
    try:
        text = line.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError:
        raise ValueError("is not text in UTF-8") from None
    if not text.strip() or text.startswith("#"):
        return None
    if text.startswith("{"):
        return _from_json(text, named)
    fields = text.split(",")
    if [field.strip().lower() for field in fields[:2]] in (["item", "rating"], ["user", "item"]):
        return None
    form = "user,item,rating[,time]" if named else "item,rating[,time]"
    least = 3 if named else 2
    if not least <= len(fields) <= least + 1:
        raise ValueError(f"{len(fields)} fields: write {form}")
    user = fields.pop(0) if named else None
    return RatedLine(user, _item(fields[0]), _number(fields[1]))


def _from_json(text: str, named: bool) -> RatedLine:
    try:
        row = _decoder.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        raise ValueError('is not {"user": ..., "item": ..., "rating": ...}') from None
    if named != (row.user is not None):
        raise ValueError("names no user" if named else "names a user, and --user names one already")
    user = None if row.user is None else str(row.user)
    return RatedLine(user, _item(str(row.item)), _number(str(row.rating)))


def _item(text: str) -> wire.Item:
    wire.key(text)  # raises for an id that cannot be one
    return wire.parse_item(text)


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError("the rating is not a number")
    return number

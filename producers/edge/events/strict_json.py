"""JSON as strangers send it: what readers of JSON let pass is found here.

    an object that names a field twice     is `REPEATED`, not the last of both
    NaN, Infinity, -Infinity               are `NOT_A_NUMBER`
    a whole number of more than 300 digits is a float: no id, and soon read
    bytes that are not UTF-8, what is no JSON, nesting beyond a limit
                                           `Malformed`, without a word of the text

So one bad row of a list spoils that row alone. What msgspec reads is taken where the text has no
other quotes than those around the names and texts that were found: then no name is there twice.
"""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

MOST_DIGITS = 300  # what is compared with a float stays below the largest one


class Malformed(ValueError):
    """What was sent is no JSON, or no event; `reason` is a code, the message a sentence."""

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


class _Odd:
    """A value that is none."""


REPEATED: Final = _Odd()
NOT_A_NUMBER: Final = _Odd()


def _object(pairs: list[tuple[str, Any]]) -> Any:
    found = dict(pairs)
    return found if len(found) == len(pairs) else REPEATED


def _whole(digits: str) -> int | float:
    return int(digits) if len(digits) <= MOST_DIGITS else float(digits)


_fast = msgspec.json.Decoder()
_strict = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_whole, parse_constant=lambda _: NOT_A_NUMBER
)


def text_of(data: bytes) -> str:
    """Return the text without a byte order mark; `Malformed` for bytes that are not UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Malformed("not_utf8", "the text is not UTF-8; encode it as UTF-8") from None


def read(text: str) -> Any:
    """Return what a text of JSON holds."""
    try:
        found = _fast.decode(text)
        if _quotes(found) == text.count('"'):
            return found
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass  # the strict reader knows why
    try:
        return _strict.decode(text)
    except RecursionError:
        raise Malformed("nested", "the JSON is nested too deeply; a row is a flat object") from None
    except ValueError:
        raise Malformed(
            "not_json", "the text is not JSON; send an object, a list of objects, or NDJSON"
        ) from None


def read_line(line: bytes) -> Any:
    """Return what a line of JSON holds, or the `Malformed` that it is."""
    try:
        return read(text_of(line))
    except Malformed as error:
        return error


def _quotes(found: Any) -> int:
    """Return the quotes around the names and texts of a value; ValueError for a number that
    is not read alike."""
    kind = type(found)
    if kind is str:
        return 2
    if kind is dict:
        return 2 * len(found) + sum(map(_quotes, found.values()))
    if kind is list:
        return sum(map(_quotes, found))
    if kind is int and len(str(found)) > MOST_DIGITS:
        raise ValueError("a whole number of too many digits")
    return 0

"""JSON as strangers send it: what Python's reader lets pass is found here.

    an object that names a field twice     is `REPEATED`, not the last of both
    NaN, Infinity, -Infinity               are `NOT_A_NUMBER`
    a whole number of more than 20 digits  is a float: no id, and soon read
    bytes that are not UTF-8, what is no JSON, nesting beyond a limit
                                           `Malformed`, without a word of the text

So one bad row of a list spoils that row alone.
"""

from __future__ import annotations

import json
from typing import Any, Final

MOST_DIGITS = 20


class Malformed(ValueError):
    """The bytes are no JSON; `reason` is a code, the message a sentence."""

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


_decoder = json.JSONDecoder(
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
        return _decoder.decode(text)
    except RecursionError:
        raise Malformed("nested", "the JSON is nested too deeply; a row is a flat object") from None
    except ValueError:
        raise Malformed(
            "not_json", "the text is not JSON; send an object, a list of objects, or NDJSON"
        ) from None


def brackets(data: bytes) -> int:
    """Return how many lists and objects the text can hold at most."""
    return data.count(b"{") + data.count(b"[")

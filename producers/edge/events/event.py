"""One event of a site, and its ids.

    user, item   the site's own ids: opaque text, of which no byte is changed
    type, value  what happened, and its number; what they mean: `feedback_types`
    at           milliseconds since 1970 in UTC
    key          the site's own name of the event, if it has one
    list         id of the list in which the item was shown, if it was

    token = first 16 bytes of SHA-256 over the parts with their lengths: ("key", key) where the
            event has a key, else (user, item, type, at)

Two events with one token are one event. A user is neither an address nor a pseudonym: it is what
the site itself writes, and it never leaves the store.
"""

from __future__ import annotations

import math
import re
from datetime import datetime
from hashlib import sha256

import msgspec

from producers.pseudonyms import MAX_USER_BYTES
from stream_app.wire import MAX_ITEM_BYTES

DAY = 86_400_000
_MILLISECONDS_FROM = 1e11
_TIME_DIGITS = re.compile(r"[0-9]{1,17}(\.[0-9]{1,9})?")
_RFC_3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?"
    r"([Zz]|[+-][0-9]{2}:[0-9]{2})"
)


class Event(msgspec.Struct, frozen=True, gc=False):
    """An event; see the module."""

    user: str
    item: str
    type: str
    value: float | None
    at: int
    key: str | None = None
    list: str | None = None

    @property
    def token(self) -> bytes:
        """16 bytes that are the same for the same event."""
        if self.key is not None:
            framed = f"3:key{len(self.key)}:{self.key}"
        else:
            user, item, type = self.user, self.item, self.type
            framed = f"{len(user)}:{user}{len(item)}:{item}{len(type)}:{type}{self.at}"
        return sha256(framed.encode()).digest()[:16]

    def __repr__(self) -> str:
        return f"Event({self.type!r})"  # who did it and the value have no place in a log


class Refused(msgspec.Struct, frozen=True):
    """A row that is no event: its number from 1 (0: all of a body), a code, and a sentence that
    holds nothing of what was sent."""

    row: int
    reason: str
    sentence: str


def user_id(found: object) -> str:
    """Return a user's id as text, an integer as its decimal; ValueError with the defect."""
    return _id(found, MAX_USER_BYTES)


def item_id(found: object) -> str:
    """Return an item's id as text, an integer as its decimal; ValueError with the defect."""
    return _id(found, MAX_ITEM_BYTES)


def _id(found: object, most_bytes: int) -> str:
    if type(found) not in (str, int):
        raise ValueError("must be text or a whole number")
    text = str(found)
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise ValueError("is not valid Unicode (a lone surrogate)") from None
    if not size:
        raise ValueError("is empty")
    if size > most_bytes:
        raise ValueError(f"is too long; give at most {most_bytes} bytes of UTF-8")
    if "\0" in text:
        raise ValueError("must not hold the character NUL")
    return text


def milliseconds(found: object) -> int:
    """Return a time as sites write it, as milliseconds since 1970 in UTC; ValueError for none.

    A number below 10^11 (the year 5138) is seconds, from there on milliseconds (1973), and so is a
    text of digits. RFC 3339 has Z or an offset: of a time without one nobody can know which it is.
    """
    if isinstance(found, str):
        if _TIME_DIGITS.fullmatch(found):
            found = float(found)
        elif _RFC_3339.fullmatch(found):
            found = datetime.fromisoformat(found.upper())
    if isinstance(found, datetime) and found.tzinfo is not None:
        return round(found.timestamp() * 1000)
    if type(found) not in (int, float) or not math.isfinite(found):  # type: ignore[arg-type]
        raise ValueError(
            "must be seconds or milliseconds since 1970, or RFC 3339 as in 2026-05-01T12:00:00Z"
        )
    number: float = found  # type: ignore[assignment]  # so it is
    return round(number if abs(number) >= _MILLISECONDS_FROM else number * 1000)

"""Parsing of exact numbers, and shortening of values for messages."""

from __future__ import annotations

import re
from fractions import Fraction

Number = Fraction | str


def parse_fraction(
    written: Number | None, form: re.Pattern[str], name: str, wanted: str
) -> Fraction:
    """Return the rational of a text in a `form`; the mechanism checks the range.

    Raises ValueError, "{name} {value}: give {wanted}", for anything else.
    """
    if isinstance(written, Fraction):
        return written
    text = written.strip() if isinstance(written, str) else ""
    try:
        if form.fullmatch(text):
            return Fraction(text)
    except ZeroDivisionError:
        pass
    raise ValueError(f"{name} {shorten(written)}: give {wanted}")


def shorten(value: object) -> str:
    """Return a value for a message, at most 40 characters of it."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."

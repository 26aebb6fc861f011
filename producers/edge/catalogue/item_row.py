"""What a site says of an item, and its limits.

Text is kept as it is written, HTML too, and never interpreted: whoever shows it escapes it. A link
to an image is http, https or a path, so that it is no program. Categories and domains are what the
catalogue of a recommender can hold, too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import msgspec

from producers.edge.events.event import item_id
from stream_app.wire.campaigns.item_features import NAME_FORM, is_name
from stream_app.wire.limits import MAX_TITLE, MAX_YEAR

MAX_CATEGORIES = 16
MAX_LABELS = 64
MAX_ATTRIBUTES = 64
MAX_TEXT = 500
MAX_LINK = 2048
_ATTRIBUTE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_LINK = re.compile(r"(https?://|/)[!-~]*")

Attribute = str | float | bool | tuple[str, ...]


class ItemRow(msgspec.Struct, frozen=True, kw_only=True):
    """What the site says of an item; `added` in milliseconds, 0 for the time it is first put."""

    item: str
    title: str = ""
    categories: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    attributes: dict[str, Attribute] = {}
    price: float | None = None
    year: int | None = None
    domain: str | None = None
    image: str | None = None
    added: int = 0
    available: bool = True
    hidden: bool = False


def checked(row: ItemRow) -> ItemRow:
    """Return the row with its item in the one form; ValueError with the field and the limit."""
    try:
        item = item_id(row.item)
    except ValueError as error:
        raise ValueError(f"item: {error}") from None
    _texts("title", (row.title,), 1, MAX_TITLE, least=0)
    _texts("categories", row.categories, MAX_CATEGORIES, MAX_TEXT)
    for field, names in (("categories", row.categories), ("domain", (row.domain or "-",))):
        if not all(map(is_name, names)):
            raise ValueError(f"{field}: has {NAME_FORM}")
    _texts("labels", row.labels, MAX_LABELS, MAX_TEXT)
    if len(row.attributes) > MAX_ATTRIBUTES or not all(map(_ATTRIBUTE.fullmatch, row.attributes)):
        raise ValueError(
            f"attributes: at most {MAX_ATTRIBUTES}, named by 1 to 64 letters, digits, - and _"
        )
    for value in row.attributes.values():
        if isinstance(value, float | int):
            _number("attributes", value)
        else:
            _texts("attributes", (value,) if isinstance(value, str) else value, 64, MAX_TEXT, 0)
    if row.price is not None and _number("price", row.price) < 0:
        raise ValueError("price: is below 0")
    if row.year is not None and not 1 <= row.year <= MAX_YEAR:
        raise ValueError(f"year: is not in 1 .. {MAX_YEAR}")
    if not 0 <= row.added < 1 << 53:
        raise ValueError("added: is no time in milliseconds since 1970")
    if row.image is not None and not (len(row.image) <= MAX_LINK and _LINK.fullmatch(row.image)):
        raise ValueError(f"image: is a link of http, https or a path, of at most {MAX_LINK} bytes")
    return row if item == row.item else msgspec.structs.replace(row, item=item)


def _texts(field: str, texts: Sequence[str], most: int, longest: int, least: int = 1) -> None:
    if len(texts) > most:
        raise ValueError(f"{field}: at most {most}")
    for text in texts:
        if not least <= len(text) <= longest or "\0" in text or not _is_unicode(text):
            raise ValueError(f"{field}: {least} to {longest} characters of Unicode without NUL")


def _is_unicode(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _number(field: str, value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{field}: is no finite number")
    return value

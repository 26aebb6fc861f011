"""What a site says of an item, and its limits.

Text is kept as it is written, HTML too, and never interpreted: whoever shows it escapes it. A link
to an image is http, https or a path, so that it is no program. Categories are what the catalogue of
a recommender can hold, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from producers.edge.events.event import item_id
from stream_app.wire.limits import MAX_TITLE, MAX_YEAR
from stream_app.wire.messages import NAME_FORM, is_name

_UNICODE = r"^[^\0\ud800-\udfff]*$"
_Text = Annotated[str, Meta(max_length=500, pattern=_UNICODE)]
_Number = Annotated[float, Meta(ge=-1e300, le=1e300)]  # finite
_Name = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,63}\Z")]

Attribute = str | float | bool | tuple[str, ...]
Attributes = dict[_Name, bool | _Number | _Text | Annotated[tuple[_Text, ...], Meta(max_length=64)]]


class ItemRow(msgspec.Struct, frozen=True, kw_only=True):
    """What the site says of an item; `added` in milliseconds, 0 for the time it is first put."""

    item: str
    title: Annotated[str, Meta(max_length=MAX_TITLE, pattern=_UNICODE)] = ""
    categories: Annotated[tuple[str, ...], Meta(max_length=16)] = ()
    labels: Annotated[tuple[Annotated[_Text, Meta(min_length=1)], ...], Meta(max_length=64)] = ()
    attributes: Annotated[Attributes, Meta(max_length=64)] = {}
    price: Annotated[float, Meta(ge=0, le=1e300)] | None = None
    year: Annotated[int, Meta(ge=1, le=MAX_YEAR)] | None = None
    image: Annotated[str, Meta(max_length=2048, pattern=r"^(https?://|/)[!-~]*\Z")] | None = None
    added: Annotated[int, Meta(ge=0, lt=1 << 53)] = 0
    available: bool = True
    hidden: bool = False


def checked(fields: Mapping[str, Any]) -> ItemRow:
    """Return the item of these fields, with its id as text; ValueError with the field and
    the limit. Text that stands for a number, true or false is that."""
    try:
        item = item_id(fields.get("item"))
    except ValueError as error:
        raise ValueError(f"item: {error}") from None
    try:
        row = msgspec.convert({**fields, "item": item}, ItemRow, strict=False)
    except msgspec.ValidationError as error:
        limit, _, place = f"{error}".replace("`", "").partition(" - at ")
        limit = limit.replace(f"matching regex {_UNICODE!r}", "of Unicode without NUL")
        raise ValueError(f"{re.sub(r'.*[$][.]|[^a-z].*', '', place)}: {limit}") from None
    if not all(map(is_name, row.categories)):
        raise ValueError(f"categories: has {NAME_FORM}")
    return row

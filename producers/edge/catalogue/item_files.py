"""Items from a file or a body: CSV, NDJSON, JSON, Parquet.

    CSV        separated by , ; | or tab, with a header
    NDJSON     an object a line
    JSON       an object, or a list of them
    Parquet    where pyarrow is installed

A column is recognised by its name (`KNOWN`, in any spelling of case, blank and dash); the result
names what each was taken for, and what was ignored. Several categories or labels stand in one cell
with | or ; between them. A year at the end of a title counts where there is no other. A row that is
no item is refused with a reason, and the others are taken. HTML stays text.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from producers.datasets.descriptions import year_in
from producers.edge.catalogue.item_row import Attribute, ItemRow, checked
from producers.edge.events import event, strict_json
from producers.edge.events.event import Refused
from producers.edge.events.strict_json import REPEATED, Malformed

MAX_ROWS = 1_000_000
KNOWN: Mapping[str, tuple[str, ...]] = {
    "item": ("item_id", "item", "itemid", "id", "sku", "product_id", "movieid", "movie_id"),
    "title": ("title", "name", "product_name"),
    "categories": ("categories", "category", "genres", "genre"),
    "labels": ("labels", "label", "tags", "tag"),
    "price": ("price",),
    "year": ("year", "release_year"),
    "domain": ("domain",),
    "image": ("image", "image_url", "image_link", "picture"),
    "added": ("added", "added_at", "created_at", "time_stamp", "timestamp", "time"),
    "available": ("available", "in_stock", "availability"),
    "hidden": ("hidden", "is_hidden", "ishidden"),
    "attributes": ("attributes",),
}
_MOST_NAMED = 200
_PREFIX = "attributes."
_PRICE = re.compile(r"([0-9]+(?:\.[0-9]+)?)(?: [A-Z]{3})?")
_YES = ("true", "1", "yes", "in_stock", "in stock")
_NO = ("false", "0", "no", "out_of_stock", "out of stock")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


class _Defect(ValueError):
    def __init__(self, name: str, defect: str) -> None:
        super().__init__(f"{name}: {defect}")


@dataclass
class ItemFile:
    """What a file holds: items, rows that are none, and what its columns were taken for."""

    rows: list[ItemRow] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    recognised: dict[str, str] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)


def rows_of(body: bytes, content_type: str) -> ItemFile:
    """Return the items of a body of this type, or of the type that it looks like."""
    found = ItemFile()
    try:
        for row, fields in enumerate(_records(body, content_type.lower()), 1):
            if row > MAX_ROWS:
                raise Malformed("too_many_rows", f"above {MAX_ROWS:,} rows; give several files")
            if isinstance(fields, Malformed):
                found.refused.append(Refused(row, fields.reason, f"{fields}"))
            else:
                _take(found, row, fields)
    except Malformed as error:
        found.refused.insert(0, Refused(0, error.reason, f"{error}"))
    return found


def _records(body: bytes, kind: str) -> Iterator[Any]:
    if body.startswith(b"PAR1") or "parquet" in kind:
        return iter(_parquet(body))
    start = body.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if "csv" in kind or start not in (b"{", b"["):
        return _csv(strict_json.text_of(body))
    if "ndjson" not in kind and "jsonl" not in kind:
        try:
            whole = strict_json.read(strict_json.text_of(body))
            return iter(whole if isinstance(whole, list) else [whole])
        except Malformed:
            if "json" in kind or start == b"[":
                raise
    return _lines(body)


def _lines(body: bytes) -> Iterator[Any]:
    for line in filter(bytes.strip, body.splitlines()):
        try:
            yield strict_json.read(strict_json.text_of(line))
        except Malformed as error:
            yield error


def _csv(text: str) -> Iterator[dict[str, str]]:
    head = text.lstrip().partition("\n")[0]

    def known(separator: str) -> int:
        return len(recognised_as(tuple(next(csv.reader([head], delimiter=separator), []))))

    reader = csv.reader(io.StringIO(text.lstrip()), delimiter=max(",;\t|", key=known))
    try:
        columns = next(reader, [])
        if "item" not in recognised_as(tuple(columns)).values():
            names = ", ".join(KNOWN["item"])
            raise Malformed("no_item_column", f"the header names no column of items: {names}")
        for cells in filter(None, reader):
            yield dict(zip(columns, cells, strict=False))
    except csv.Error:
        raise Malformed("not_csv", f"row {reader.line_num} is no CSV") from None


def _parquet(body: bytes) -> list[dict[str, Any]]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise Malformed("no_pyarrow", "Parquet needs pyarrow: pip install pyarrow") from None
    try:
        rows: list[dict[str, Any]] = parquet.read_table(io.BytesIO(body)).to_pylist()
    except (ArrowException, OSError, ValueError):
        raise Malformed("not_parquet", "the file is no Parquet") from None
    return rows


@lru_cache(1024)
def recognised_as(columns: tuple[str, ...]) -> dict[str, str]:
    """Return what columns are taken for; of several for one field the one first in `KNOWN`."""
    plain = {re.sub(r"[ -]", "_", column.strip().lower()): column for column in columns}
    found = {column: column.strip() for column in plain.values() if column.startswith(_PREFIX)}
    for name, words in KNOWN.items():
        if (word := next((word for word in words if word in plain), None)) is not None:
            found[plain[word]] = name
    return found


def _take(found: ItemFile, row: int, fields: Any) -> None:
    try:
        if fields is REPEATED or not isinstance(fields, dict):
            raise _Defect("row", "an item is an object that names each field once")
        known = recognised_as(tuple(fields))
        if len(found.recognised) + len(found.ignored) < _MOST_NAMED:
            found.recognised |= known
            found.ignored += fields.keys() - known.keys() - set(found.ignored)
        if len(known) < 2 <= len(fields):
            raise _Defect("row", f"has no known field but the item; known are {', '.join(KNOWN)}")
        found.rows.append(item_of({known[name]: fields[name] for name in known}))
    except ValueError as error:
        found.refused.append(Refused(row, f"{f'{error}'.partition(':')[0]}_invalid", f"{error}"))


def item_of(fields: dict[str, Any]) -> ItemRow:
    """Return the item of recognised fields; ValueError with the field and its limit."""
    given = {name: value for name, value in fields.items() if value not in (None, "")}
    attributes = given.pop("attributes", {})
    if not isinstance(attributes, dict):
        raise _Defect("attributes", "is an object of texts, numbers, true or false")
    read: dict[str, Any] = {}
    for name, value in given.items():
        if name.startswith(_PREFIX):
            attributes = {**attributes, name.removeprefix(_PREFIX): _free(value)}
        else:
            read[name] = _READERS[name](name, value)
    if "item" not in read:
        raise _Defect("item", "is missing")
    if not read.get("year"):
        read["year"] = year_in(read.get("title", ""))
    kept: dict[str, Attribute] = {name: _attribute(value) for name, value in attributes.items()}
    return checked(ItemRow(**read, attributes=kept))


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise _Defect(name, "is text")
    return f"{value}".strip()


def _texts(name: str, value: Any) -> tuple[str, ...]:
    parts = re.split(r"[|;]", value) if isinstance(value, str) else value
    if not isinstance(parts, list):
        raise _Defect(name, "is text, or a list of texts")
    return tuple(dict.fromkeys(text for part in parts if (text := _text(name, part))))


def _price(name: str, value: Any) -> float:
    if isinstance(value, str) and (found := _PRICE.fullmatch(value.strip())):
        return float(found[1])
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Defect(name, "is a number, as in 19.90")
    return float(value)


def _year(name: str, value: Any) -> int:
    number = float(value) if isinstance(value, str) and value.strip().isdecimal() else value
    if isinstance(number, bool) or not isinstance(number, int | float) or number % 1:
        raise _Defect(name, "is a whole number, as in 1995")
    return int(number)


def _flag(name: str, value: Any) -> bool:
    word = f"{value}".strip().lower()
    if word not in _YES + _NO:
        raise _Defect(name, "is true or false")
    return word in _YES


def _time(name: str, value: Any) -> int:
    whole = f"{value}T00:00:00Z" if isinstance(value, str) and _DAY.fullmatch(value) else value
    try:
        return event.milliseconds(whole)
    except (ValueError, OverflowError):
        raise _Defect(name, "is a time in RFC 3339, a day, or seconds since 1970") from None


_READERS: Mapping[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(("item", "title", "domain", "image"), _text),
    **dict.fromkeys(("categories", "labels"), _texts),
    **dict.fromkeys(("available", "hidden"), _flag),
    "price": _price,
    "year": _year,
    "added": _time,
}


def _attribute(value: Any) -> Attribute:
    if isinstance(value, list):
        return _texts("attributes", value)
    if not isinstance(value, str | int | float):
        raise _Defect("attributes", "each is text, a number, true, false, or a list of texts")
    return value if isinstance(value, str | bool) else float(value)


def _free(value: Any) -> Any:
    """Return a cell as what it looks like."""
    if not isinstance(value, str):
        return value
    try:
        return float(value) if value.strip().lower() not in ("true", "false") else _flag("", value)
    except ValueError:
        return value

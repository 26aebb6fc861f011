"""Items from a file or a body: CSV, NDJSON, JSON, Parquet.

    CSV        separated by , ; | or tab, with a header
    NDJSON     an object a line
    JSON       an object, or a list of them
    Parquet    where pyarrow is installed

A column is recognised by its name (`KNOWN`, in any spelling of case, blank and dash); the result
names what each was taken for, and what was ignored. Several categories or labels stand in one cell
with | or ; between them. A year at the end of a title counts where there is no other. A row that is
no item is refused with a reason, and the others are taken.

Text is kept as it is written, HTML too, and never interpreted: whoever shows it escapes it. A link
to an image is http, https or a path, so that it is no program. Categories are what the catalogue of
a recommender can hold, too.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from producers.edge.events import event, strict_json
from producers.edge.events.event import Refused, item_id
from producers.edge.events.strict_json import REPEATED, Malformed
from stream_app.errors import UserError
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


MAX_ROWS, MAX_BYTES = 1_000_000, 512 << 20
KNOWN: Mapping[str, tuple[str, ...]] = {
    "item": ("item_id", "item", "itemid", "id", "sku", "product_id", "movieid", "movie_id"),
    "title": ("title", "name", "product_name"),
    "categories": ("categories", "category", "genres", "genre"),
    "labels": ("labels", "label", "tags", "tag"),
    "price": ("price",),
    "year": ("year", "release_year"),
    "image": ("image", "image_url", "image_link", "picture"),
    "added": ("added", "added_at", "created_at", "time_stamp", "timestamp", "time"),
    "available": ("available", "in_stock", "availability"),
    "hidden": ("hidden", "is_hidden", "ishidden"),
    "attributes": ("attributes",),
}
_MOST_NAMED = 200
_VALUES_A_BYTE, _GROUP_BYTES, _CELL = 100, 64 << 20, 1 << 16  # of Parquet
_LONGEST = 1 << 20  # bytes of a line
_PREFIX = "attributes."
_CURRENCY = re.compile(r" [A-Z]{3}$")
_WORDS = {"yes": True, "in_stock": True, "in stock": True}
_WORDS |= {"no": False, "out_of_stock": False, "out of stock": False}
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_YEAR = re.compile(r"\((\d{4})\)\s*$", re.ASCII)
NO_GENRES = "(no genres listed)"  # of MovieLens-25M


@dataclass
class ItemFile:
    """What a file holds: items, rows that are none, and what its columns were taken for."""

    rows: list[ItemRow] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    recognised: dict[str, str] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)


def read(path: Path) -> bytes:
    """Return the body that a file of items is; UserError for one that cannot be read at once."""
    try:
        if (size := path.stat().st_size) > MAX_BYTES:
            raise UserError(
                f"{path}: has {size >> 20:,} MiB, a file of items at most {MAX_BYTES >> 20}; give "
                "several files"
            )
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None


def rows_of(body: bytes, content_type: str, fields: Collection[str] | None = None) -> ItemFile:
    """Return the items of a body of this type, or of the type that it looks like; with these
    `fields` alone, if they are given."""
    found = ItemFile()
    try:
        for row, record in enumerate(_records(body, content_type.lower()), 1):
            if row > MAX_ROWS:
                raise _too_many()
            if isinstance(record, Malformed):
                found.refused.append(Refused(row, record.reason, f"{record}"))
            else:
                _take(found, row, record, fields)
    except Malformed as error:
        found.refused.insert(0, Refused(0, error.reason, f"{error}"))
    return found


def _records(body: bytes, kind: str) -> Iterator[Any]:
    if body.startswith(b"PAR1") or "parquet" in kind:
        return _parquet(body)
    start = body.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if "csv" in kind or start not in (b"{", b"["):
        return _csv(strict_json.text_of(_bounded(body)))
    if "ndjson" not in kind and "jsonl" not in kind:
        try:
            whole = strict_json.read(strict_json.text_of(body))
            return iter(whole if isinstance(whole, list) else [whole])
        except Malformed:
            if "json" in kind or start == b"[":
                raise
    return map(strict_json.read_line, filter(bytes.strip, _bounded(body).splitlines()))


def _bounded(body: bytes) -> bytes:
    """Return a body of lines; `Malformed` for a line that no item needs, before it is decoded,
    which takes many times its memory."""
    start, end = 0, b"\n" if b"\n" in body else b"\r"
    while len(body) - start > _LONGEST:
        found = body.find(end, start, start + _LONGEST + 1)
        if found < 0:
            raise Malformed("line", f"a line is above {_LONGEST:,} bytes; give an item a line")
        start = found + 1
    return body


def _csv(text: str) -> Iterator[dict[str, str]]:
    head = text.lstrip().partition("\n")[0]
    if len(head) > csv.field_size_limit():
        raise Malformed("not_csv", "the header names no columns; name them in the first line")

    def known(separator: str) -> int:
        return len(recognised_as(tuple(next(csv.reader([head], delimiter=separator), []))))

    reader = csv.reader(io.StringIO(text.lstrip()), delimiter=max(",;\t|", key=known))
    try:
        columns = next(reader, [])
        if "item" not in recognised_as(tuple(columns)).values():
            names = ", ".join(KNOWN["item"])
            raise Malformed("no_item_column", f"the header names no column of items: {names}")
        named = list(filter(None, map(_plain, columns)))
        if len(set(named)) < len(named):
            raise Malformed("column_repeated", "the header names a column twice; rename one")
        for cells in filter(None, reader):
            yield dict(zip(columns, cells, strict=False))
    except csv.Error:
        most = f"{csv.field_size_limit():,} characters"
        raise Malformed(
            "not_csv", f"line {reader.line_num} is no CSV, or a cell is above {most}"
        ) from None


def _parquet(body: bytes) -> Iterator[dict[str, Any]]:
    """Yield the rows, a row group at a time; what a file claims to hold is counted before it is
    read, since a few bytes can claim millions of rows, or one row of a gigabyte."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise Malformed(
            "no_pyarrow", 'Parquet needs pyarrow: pip install "murmurec[edge]"'
        ) from None
    parquet: Any = pyarrow.parquet
    try:
        file = parquet.ParquetFile(io.BytesIO(body))
        names = file.schema_arrow.names
        known = recognised_as(tuple(names))
        texts = _counted(file.metadata, known, len(body))
        # As dictionaries: a text that a million rows repeat is held once.
        file = parquet.ParquetFile(io.BytesIO(body), read_dictionary=texts)
        for number in range(file.metadata.num_row_groups):
            table = file.read_row_group(number, [*known], use_threads=False).combine_chunks()
            columns = {name: table.column(name) for name in known}
            if any(_longest(chunk) > _CELL for each in columns.values() for chunk in each.chunks):
                raise Malformed("cell", f"a cell holds above {_CELL:,} bytes; shorten it")
            for row in range(table.num_rows):
                yield dict.fromkeys(names) | {n: each[row].as_py() for n, each in columns.items()}
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        if isinstance(error, Malformed):
            raise
        raise Malformed("not_parquet", "the file is no whole Parquet; write it again") from None


def _counted(file: Any, known: Collection[str], size: int) -> list[str]:
    """Return the columns of text among the known ones of a Parquet file of so many bytes;
    `Malformed` for one that claims to hold too much."""
    if file.num_rows > _VALUES_A_BYTE * size:
        raise Malformed("too_many_rows", f"claims above {_VALUES_A_BYTE} rows a byte")
    if file.num_rows > MAX_ROWS:
        raise _too_many()
    texts = dict[str, None]()
    for number in range(file.num_row_groups):
        group = file.row_group(number)
        columns = [group.column(each) for each in range(group.num_columns)]
        used = [each for each in columns if each.path_in_schema.partition(".")[0] in known]
        if any(each.num_values > _VALUES_A_BYTE * size for each in used):
            raise Malformed("too_many_rows", f"claims above {_VALUES_A_BYTE} values a byte")
        if any(each.physical_type == "FIXED_LEN_BYTE_ARRAY" for each in used):
            raise Malformed("fixed_length", "bytes of a fixed length are no field of an item")
        if sum(each.total_uncompressed_size for each in used) > _GROUP_BYTES:
            most = f"{_GROUP_BYTES >> 20} MiB"
            raise Malformed("row_group", f"a row group holds above {most}; write smaller ones")
        texts |= {each.path_in_schema: None for each in used if each.physical_type == "BYTE_ARRAY"}
    return [*texts]


def _longest(array: Any) -> int:
    """Return how many bytes the longest text in an array of any nesting has."""
    if hasattr(array, "dictionary"):
        return max((len(each.as_buffer()) for each in array.dictionary if each.is_valid), default=0)
    if hasattr(array, "field"):
        fields = range(array.type.num_fields)
        return max((_longest(array.field(each)) for each in fields), default=0)
    return _longest(array.values) if array.type.num_fields else 0


def _too_many() -> Malformed:
    return Malformed("too_many_rows", f"above {MAX_ROWS:,} rows; give several files")


def _plain(column: str) -> str:
    return re.sub(r"[ -]", "_", column.strip().lower())


@lru_cache(1024)
def recognised_as(columns: tuple[str, ...]) -> dict[str, str]:
    """Return what columns are taken for; of several for one field the one first in `KNOWN`."""
    plain = {_plain(column): column for column in columns}
    found = {column: column.strip() for column in plain.values() if column.startswith(_PREFIX)}
    for name, words in KNOWN.items():
        if (word := next((word for word in words if word in plain), None)) is not None:
            found[plain[word]] = name
    return found


def _take(found: ItemFile, row: int, record: Any, fields: Collection[str] | None) -> None:
    try:
        if record is REPEATED or not isinstance(record, dict):
            raise ValueError("row: an item is an object that names each field once")
        known = recognised_as(tuple(record))
        if fields is not None:
            known = {column: name for column, name in known.items() if name in fields}
        if len(found.recognised) + len(found.ignored) < _MOST_NAMED:
            found.recognised |= known
            found.ignored += record.keys() - known.keys() - set(found.ignored)
        if len(known) < 2 <= len(record):
            names = ", ".join(fields or KNOWN)
            raise ValueError(f"row: has no known field but the item; known are {names}")
        found.rows.append(item_of({name: record[column] for column, name in known.items()}))
    except ValueError as error:
        found.refused.append(Refused(row, f"{f'{error}'.partition(':')[0]}_invalid", f"{error}"))


def item_of(fields: dict[str, Any]) -> ItemRow:
    """Return the item of recognised fields; ValueError with the field and its limit."""
    given = {name: _read(name, value) for name, value in fields.items() if value not in (None, "")}
    attributes = given.get("attributes", {})
    cells = {name: given.pop(name) for name in list(given) if name.startswith(_PREFIX)}
    if cells and isinstance(attributes, dict):
        own = {name.removeprefix(_PREFIX): value for name, value in cells.items()}
        given["attributes"] = attributes | own
    if "item" not in given:
        raise ValueError("item: is missing")
    if given.get("year", "0") in (0, "0"):
        given["year"] = year_in(f"{given.get('title', '')}")
    return checked(given)


def year_in(title: str) -> int | None:
    """Return the year in brackets at the end of a title."""
    found = _YEAR.search(title)
    return int(found[1]) or None if found else None


def _read(name: str, value: Any) -> Any:
    """Return a cell or a value of JSON as what `checked` reads, where it stands for that."""
    if name in ("categories", "labels"):
        parts = re.split(r"[|;]", value) if isinstance(value, str) else value
        if not isinstance(parts, list) or any(type(part) not in (str, int) for part in parts):
            return parts
        named = dict.fromkeys(f"{part}".strip() for part in parts)
        return [name for name in named if name not in ("", NO_GENRES)]
    if name in ("title", "image") and type(value) is int:
        return f"{value}"
    if name == "added":
        try:
            is_day = isinstance(value, str) and _DAY.fullmatch(value)
            return event.milliseconds(f"{value}T00:00:00Z" if is_day else value)
        except (ValueError, OverflowError):
            times = "added: is a time in RFC 3339, a day, or seconds since 1970"
            raise ValueError(times) from None
    if not isinstance(value, str) or name == "item":
        return value
    value = value.strip()
    if name == "price":
        return _CURRENCY.sub("", value)
    if name in ("available", "hidden"):
        return _WORDS.get(value.lower(), value)
    if name.startswith(_PREFIX):
        try:
            return msgspec.convert(value, bool | float, strict=False)
        except msgspec.ValidationError:
            pass
    return value

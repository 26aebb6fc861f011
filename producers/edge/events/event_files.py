"""Files of events, row by row: a site's own, and exports of Gorse and Metarank; .gz or not.

    CSV      a column is taken by its name, in any case, with - or a blank for _ (`COLUMNS`)
    NDJSON   fields are, too; Metarank's `fields`, a list of name and value, stand beside the others

Gorse (github.com/gorse-io/docs: src/docs/concepts/data-source.md, src/ch02-05-dashboard.md):
    feedback; items, whose comment is a title; users are passed over: nobody has labels here
Metarank (github.com/metarank/metarank: doc/event-schema.md):
    interactions; items, whose events change single fields; users and rankings are passed over

Without a type, rows with a value are ratings, and the others views. A type that the site's table
lacks is translated by `WORDS`. A row without key and time gets a key from the file's name, its own
number and its text, and one of Gorse from user, item and type, as Gorse keeps it: a file that is
imported again counts once. An item comes once, at the end; fields that no column of the catalogue
knows are its attributes.
"""

from __future__ import annotations

import csv
import gzip
import re
import time
from collections.abc import Iterator, Mapping
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

from producers.datasets.item_files import ItemRow, item_of, recognised_as
from producers.datasets.table_files import bounded_lines
from producers.edge.events import strict_json
from producers.edge.events.event import Event, Refused
from producers.edge.events.event_decoding import event_of
from producers.edge.events.feedback_types import FeedbackTypes
from stream_app.errors import UserError
from stream_app.wire.limits import MAX_TITLE

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "user": ("user", "user_id", "userid", "customer", "customer_id", "visitor_id"),
    "item": (
        *("item", "item_id", "itemid", "product", "product_id", "sku"),
        *("movie_id", "movieid"),
    ),
    "type": ("type", "event", "event_type", "action", "feedback_type", "feedbacktype"),
    "value": ("value", "rating", "stars", "score"),
    "time": ("time", "timestamp", "at", "date", "created_at", "time_stamp"),
    "key": ("key", "event_id"),
    "list": ("list",),
}
WORDS: Mapping[str, str] = {"read": "view", "star": "like", "add-to-cart": "cart"}
_GO_TIME = re.compile(r"([0-9-]{10}) ([0-9:]{8}(?:\.[0-9]+)?) ([+-][0-9]{2})([0-9]{2}) [A-Z0-9+-]+")

Row = Event | ItemRow | Refused


def rows_of(path: Path, types: FeedbackTypes) -> Iterator[Row]:
    """Yield what a file holds, and what of it is none; UserError for a file that is none."""
    try:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path.expanduser(), "rt", encoding="utf-8-sig", newline="") as file:
            yield from _rows(file, path, types)
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or "no whole .gz"
        raise UserError(f"{path}: cannot be read ({reason})") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(
            f"{path}: is no CSV or NDJSON in UTF-8 ({type(error).__name__}), or a binary dump"
        ) from None


def _rows(file: TextIO, path: Path, types: FeedbackTypes) -> Iterator[Row]:
    now, items = time.time_ns() // 1_000_000, dict[str, tuple[int, dict[str, Any]]]()
    for number, found in enumerate(_records(file, path), 1):
        record = _named(found) if isinstance(found, dict) else {}
        if not record:
            yield event_of(found, number, now, types)  # its refusal
        elif record.get("event") == "item" or {"ishidden", "is_hidden"} & record.keys():
            name = str(_first(record, "item"))
            _, known = items.get(name, (0, {}))
            first = {place: known[place] for place in COLUMNS["time"] if place in known}
            items[name] = number, known | record | first
        elif not _passed_over(record):
            yield event_of(_event(record, path, number, types), number, now, types)
    for number, record in items.values():
        try:
            yield item_of(_item(record))
        except ValueError as error:
            yield Refused(number, f"{f'{error}'.partition(':')[0]}_invalid", f"{error}")


def _records(file: TextIO, path: Path) -> Iterator[Any]:
    lines = bounded_lines(file, f"{path}")
    head = next(lines, "")
    if head.lstrip()[:1] == "{":
        for line in chain([head], lines):
            if line.strip():
                yield strict_json.read_line(line.encode(errors="replace"))
        return
    columns = next(csv.reader([head]), [])
    known = _named(dict.fromkeys(columns, ""))
    for name in ("user", "item"):
        if not known.keys() & {*COLUMNS[name], "is_hidden", "labels"}:
            raise UserError(
                f"{path}: its header has no column for the {name}; name it {name}, and the others "
                "type, value, time"
            )
    for cells in filter(None, csv.reader(lines)):
        yield {name: cell for name, cell in zip(columns, cells, strict=False) if cell}


def _named(found: dict[str, Any]) -> dict[str, Any]:
    """Return a record by the names that columns are known by."""
    fields = found.get("fields")
    pairs = [each for each in fields if isinstance(each, dict)] if isinstance(fields, list) else []
    whole = found | {str(each.get("name")): each.get("value") for each in pairs}
    if isinstance(fields, list):
        del whole["fields"]
    return {re.sub("[ -]", "_", name.strip().lower()): whole[name] for name in whole}


def _first(record: dict[str, Any], name: str) -> Any:
    values = (record.get(each) for each in COLUMNS[name])
    return next((value for value in values if value is not None), None)


def _passed_over(record: dict[str, Any]) -> bool:
    is_user = "labels" in record and _first(record, "item") is None
    return is_user or record.get("event") in ("user", "ranking")


def _event(record: dict[str, Any], path: Path, number: int, types: FeedbackTypes) -> dict[str, Any]:
    row = {name: _first(record, name) for name in COLUMNS}
    if isinstance(row["value"], str):
        try:
            row["value"] = float(row["value"])
        except ValueError:
            row["value"] = None
    if row["type"] is None:
        has_value = any(each in record for each in COLUMNS["value"])
        row["type"] = "rating" if has_value else "view"
    if isinstance(row["type"], str) and row["type"] not in types.table:
        row["type"] = WORDS.get(row["type"], row["type"])
    row["time"] = _time(row["time"])
    if row["key"] is None and row["time"] is None:
        is_gorse = {"feedbacktype", "feedback_type"} & record.keys()
        parts: tuple[Any, ...] = path.name, number, record
        if is_gorse:  # 7 and "7" are one id
            parts = str(row["user"]), str(row["item"]), row["type"]
        row["key"] = sha256(repr(parts).encode(errors="replace")).hexdigest()
    return row


def _time(found: Any) -> Any:
    """Return a time in RFC 3339; None for Go's time zero."""
    if isinstance(found, str):
        if match := _GO_TIME.fullmatch(found):
            found = "{}T{}{}:{}".format(*match.groups())
        return None if found.startswith("0001-") else found
    return found


def _item(record: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an item as the catalogue takes them."""
    record = {name: value for name, value in record.items() if name not in ("event", "id")}
    title = str(record.pop("comment", None) or record.pop("description", None) or "")[:MAX_TITLE]
    known = recognised_as(tuple(record))
    given = {field: record[name] for name, field in known.items()}
    rest = {name: value for name, value in record.items() if name not in known}
    labels = given.get("labels")
    if isinstance(labels, str) and (labels == "null" or labels[0] in "{["):
        labels = strict_json.read(labels)
    if isinstance(labels, dict):
        rest, labels = rest | labels, None
    attributes = {name: value for name, value in rest.items() if _is_plain(value)}
    more = {"labels": labels, "attributes": attributes, "added": _time(given.get("added"))}
    return {"title": title, **given, **more}


def _is_plain(value: Any) -> bool:
    """Return whether it can be an attribute: no vector, and nothing nested."""
    if isinstance(value, list):
        return all(isinstance(each, str) for each in value)
    return isinstance(value, str | int | float)

"""What other recommenders export, as events and items of an edge.

Gorse (github.com/gorse-io/docs: src/docs/concepts/data-source.md, src/docs/gorse-dashboard.md; its
CSV: src/ch02-05-dashboard.md, in the columns that release 0.4 writes), JSON lines or CSV:

    {"FeedbackType","UserId","ItemId","Value","Timestamp"}
                                      feedback_type,user_id,item_id,time_stamp
    {"ItemId","IsHidden","Categories","Timestamp","Labels","Comment"}
                                      item_id,is_hidden,categories,time_stamp,labels,description
    {"UserId","Labels","Comment"}     user_id,labels            passed over: an edge keeps no labels

Metarank (github.com/metarank/metarank: doc/event-schema.md, doc/timestamp-formats.md), JSON lines:

    {"event":"item","id","timestamp","item","fields":[{"name","value"}]}
    {"event":"interaction","id","timestamp","user","type","item","fields","ranking"}
    {"event":"user"}, {"event":"ranking"}                        passed over

A type that the site's table lacks is translated by `WORDS` or by the caller's. A comment of Gorse
is a title. Fields and labels that no column knows are attributes; item events of Metarank change
single fields, so an item comes once, at the end. A row without a time counts once for its user,
item and type, as Gorse itself keeps it. The binary dump of `gorse-cli` is refused.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, TextIO

from producers.edge.catalogue.item_files import item_of, recognised_as
from producers.edge.catalogue.item_row import ItemRow
from producers.edge.events import strict_json
from producers.edge.events.event import Event, Refused
from producers.edge.events.event_decoding import event_of
from producers.edge.events.feedback_types import FeedbackTypes
from producers.edge.events.strict_json import Malformed
from stream_app.errors import UserError
from stream_app.wire.limits import MAX_TITLE

WORDS: Mapping[str, str] = {"read": "view", "star": "like", "add-to-cart": "cart"}
_COLUMNS = {
    "feedback_type": "FeedbackType",
    "user_id": "UserId",
    "item_id": "ItemId",
    "time_stamp": "Timestamp",
    "is_hidden": "IsHidden",
    "categories": "Categories",
    "labels": "Labels",
    "description": "Comment",
}
_HEADS = ("feedback_type,user_id,item_id", "item_id,is_hidden,categories", "user_id,labels")
_GO_TIME = re.compile(r"([0-9-]{10}) ([0-9:]{8}(?:\.[0-9]+)?) ([+-][0-9]{2})([0-9]{2}) [A-Z0-9+-]+")
_LONGEST = 1 << 20  # of a line
_VALUES = ("value", "rating", "stars")
_EVENTS = ("item", "user", "interaction", "ranking")

Row = Event | ItemRow | Refused


def foreign_rows(
    path: Path, types: FeedbackTypes, words: Mapping[str, str] = WORDS
) -> Iterator[Row] | None:
    """Return the rows of an export of Gorse or Metarank, .gz or not; None for another file.

    `words`: their types to the site's. UserError for a file that cannot be read, or read on.
    """
    with _opened(path) as file:
        head = file.readline(_LONGEST)
    if head.startswith(_HEADS):
        return _gorse(path, _table, types, words)
    try:
        found = strict_json.read(head)
    except Malformed:
        return None
    if isinstance(found, dict) and found.get("event") in _EVENTS and "timestamp" in found:
        return _metarank(path, types, words)
    is_gorse = isinstance(found, dict) and bool({"FeedbackType", "ItemId", "UserId"} & found.keys())
    return _gorse(path, _objects, types, words) if is_gorse else None


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    try:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
            yield file
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or 'no whole .gz'})") from None
    except (UnicodeDecodeError, EOFError, csv.Error):
        raise UserError(
            f"{path}: is no text in UTF-8; export JSON lines or CSV, not a binary dump"
        ) from None


def _objects(file: TextIO) -> Iterator[Any]:
    while line := file.readline(_LONGEST):
        if line.strip():
            try:
                yield strict_json.read(line)
            except Malformed as error:
                yield error


def _table(file: TextIO) -> Iterator[Any]:
    lines = csv.reader(file)
    columns = [_COLUMNS.get(name, name) for name in next(lines)]
    for cells in filter(None, lines):
        yield {name: cell for name, cell in zip(columns, cells, strict=False) if cell}


_Records = Callable[[TextIO], Iterator[Any]]


def _gorse(
    path: Path, records: _Records, types: FeedbackTypes, words: Mapping[str, str]
) -> Iterator[Row]:
    now = time.time_ns() // 1_000_000
    with _opened(path) as file:
        for row, found in enumerate(records(file), 1):
            if isinstance(found, Malformed):
                yield Refused(row, found.reason, f"{found}")
            elif isinstance(found, dict) and "FeedbackType" in found:
                at, value = _gorse_time(found.get("Timestamp")), found.get("Value")
                event = {
                    "user": found.get("UserId"),
                    "item": found.get("ItemId"),
                    "type": _word(found["FeedbackType"], types, words),
                    "value": None if value == 0 else value,  # 0: it has none
                }
                yield event_of(_timed(event, at), row, now, types)
            elif not isinstance(found, dict) or "UserId" not in found:
                yield _item(_gorse_item(found) if isinstance(found, dict) else {}, row)


def _gorse_item(found: dict[str, Any]) -> dict[str, Any]:
    labels = found.get("Labels")
    if isinstance(labels, str):  # a cell: JSON, or with | between them
        try:
            labels = strict_json.read(labels)
        except Malformed:
            labels = labels.split("|")
    more = {"labels": labels} if isinstance(labels, list) else {"attributes": _kept(labels)}
    return {
        "item": found.get("ItemId"),
        "title": str(found.get("Comment") or "")[:MAX_TITLE],
        "categories": found.get("Categories") or [],
        "hidden": found.get("IsHidden"),
        "added": _gorse_time(found.get("Timestamp")),
        **more,
    }


def _gorse_time(found: Any) -> Any:
    """Return a time in RFC 3339; None for Go's time zero."""
    if isinstance(found, str):
        if match := _GO_TIME.fullmatch(found):
            found = "{}T{}{}:{}".format(*match.groups())
        return None if found.startswith("0001-") else found
    return found


def _metarank(path: Path, types: FeedbackTypes, words: Mapping[str, str]) -> Iterator[Row]:
    now = time.time_ns() // 1_000_000
    items: dict[str, dict[str, Any]] = {}
    with _opened(path) as file:
        for row, found in enumerate(_objects(file), 1):
            if isinstance(found, Malformed):
                yield Refused(row, found.reason, f"{found}")
                continue
            given = found if isinstance(found, dict) else {}
            fields = _fields(given.get("fields"))
            if given.get("event") == "item" and isinstance(given.get("item"), str):
                known = items.setdefault(given["item"], {"added": given.get("timestamp")})
                known |= fields
            elif given.get("event") == "interaction":
                event = {
                    "user": given.get("user"),
                    "item": given.get("item"),
                    "type": _word(given.get("type"), types, words),
                    "value": next(filter(None, map(fields.get, _VALUES)), None),
                }
                yield event_of(_timed(event, given.get("timestamp")), row, now, types)
            elif given.get("event") not in ("user", "ranking"):
                yield Refused(row, "event_unknown", f"event must be one of {', '.join(_EVENTS)}")
    for item, fields in items.items():
        known_as = recognised_as(tuple(fields))
        row_of = {field: fields[name] for name, field in known_as.items() if field != "item"}
        rest = {name: value for name, value in fields.items() if name not in known_as}
        yield _item({**row_of, "item": item, "attributes": _kept(rest)}, 0)


def _fields(found: Any) -> dict[str, Any]:
    pairs = found if isinstance(found, list) else []
    named = [pair for pair in pairs if isinstance(pair, dict) and isinstance(pair.get("name"), str)]
    return {pair["name"]: pair.get("value") for pair in named}


def _kept(found: Any) -> dict[str, Any]:
    """Return what can be an attribute: not vectors, and nothing nested."""
    pairs = found.items() if isinstance(found, dict) else ()
    return {
        name: value
        for name, value in pairs
        if isinstance(value, str | int | float)
        or (isinstance(value, list) and all(isinstance(each, str) for each in value))
    }


def _word(found: Any, types: FeedbackTypes, words: Mapping[str, str]) -> Any:
    known = not isinstance(found, str) or found in types.table
    return found if known else words.get(found, found)


def _timed(event: dict[str, Any], at: Any) -> dict[str, Any]:
    if at is not None:
        return {**event, "time": at}
    own = json.dumps([event["user"], event["item"], event["type"]]).encode()
    return {**event, "key": sha256(own).hexdigest()}


def _item(fields: dict[str, Any], row: int) -> ItemRow | Refused:
    try:
        return item_of(fields)
    except ValueError as error:
        return Refused(row, f"{f'{error}'.partition(':')[0]}_invalid", f"{error}")

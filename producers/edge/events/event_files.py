"""A site's own file of events, row by row: CSV with a header, or one JSON object a line.

    CSV      a column is taken by its name, in any case, with - or a blank for _
             user    user, user_id, userid, customer, customer_id, visitor_id
             item    item, item_id, itemid, product, product_id, sku, movie_id, movieid
             type    type, event, event_type, action, feedback_type
             value   value, rating, stars, score
             time    time, timestamp, at, date, created_at
             key     key, event_id
    NDJSON   the fields of POST /events

Without a column for the type, rows with a value are ratings, and the others views. A row without
key and time gets a key from the file's name, its own number and its text: a file that is imported
again counts once.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from producers.edge.events import strict_json
from producers.edge.events.event import Event, Refused
from producers.edge.events.event_decoding import event_of
from producers.edge.events.feedback_types import FeedbackTypes
from producers.edge.events.strict_json import Malformed
from stream_app.errors import UserError

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "user": ("user", "user_id", "userid", "customer", "customer_id", "visitor_id"),
    "item": (
        *("item", "item_id", "itemid", "product", "product_id", "sku"),
        *("movie_id", "movieid"),
    ),
    "type": ("type", "event", "event_type", "action", "feedback_type"),
    "value": ("value", "rating", "stars", "score"),
    "time": ("time", "timestamp", "at", "date", "created_at"),
    "key": ("key", "event_id"),
}


def rows_of(path: Path, types: FeedbackTypes) -> Iterator[Event | Refused]:
    """Yield the events of a file, and what of it is none; UserError for a file that is none."""
    now = time.time_ns() // 1_000_000
    try:
        with path.expanduser().open(encoding="utf-8-sig", newline="") as file:
            head = file.readline()
            file.seek(0)
            lines = _objects(file) if head.lstrip()[:1] == "{" else _records(file, path)
            for number, found in enumerate(lines, 1):
                if isinstance(found, Malformed):
                    yield Refused(number, found.reason, str(found))
                    continue
                if isinstance(found, dict) and not (found.get("key") or found.get("time")):
                    text = f"{path.name}\0{number}\0{sorted(map(str, found.items()))}"
                    found = {**found, "key": sha256(text.encode()).hexdigest()}
                yield event_of(found, number, now, types)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: is no CSV or NDJSON in UTF-8 ({type(error).__name__})") from None


def _objects(file: Iterator[str]) -> Iterator[Any]:
    for line in file:
        if line.strip():
            try:
                yield strict_json.read(line)
            except Malformed as error:
                yield error


def _records(file: Iterator[str], path: Path) -> Iterator[dict[str, Any]]:
    records = csv.reader(file)
    places = _places(next(records, []))
    for name in ("user", "item"):
        if name not in places:
            raise UserError(
                f"{path}: its header has no column for the {name}; name it {COLUMNS[name][0]}, and "
                "the others type, value, time"
            )
    for record in records:
        if record:
            row: dict[str, Any] = {
                name: record[place]
                for name, place in places.items()
                if place < len(record) and record[place]
            }
            yield _typed(row)


def _places(header: list[str]) -> dict[str, int]:
    words = [word.strip().lower().replace("-", "_").replace(" ", "_") for word in header]
    found = {}
    for name, known in COLUMNS.items():
        place = next((words.index(word) for word in known if word in words), None)
        if place is not None:
            found[name] = place
    return found


def _typed(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of text with its value as a number, and with a type."""
    row.setdefault("type", "rating" if "value" in row else "view")
    if "value" in row:
        try:
            row["value"] = float(row["value"])
        except ValueError:
            row["value"] = None
    return row

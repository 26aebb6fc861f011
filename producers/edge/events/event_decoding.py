"""The body of a request, or the row of a record, as events.

    {"user":"cust-44","item":"SKU-2571","type":"purchase","time":"2026-05-01T12:00:00Z"}
    [{...}, {...}]         the same in a list
    {...} NEWLINE {...}    NDJSON

    user, item   text, or a whole number
    type         one of the site's feedback types; `"rating": 4` stands for type and value
    value        a number; where the type is a rating, one on the site's scale
    time         `event.milliseconds`; without one the time of receipt, and then two sendings are
                 two events
    key          optional: the site's name of the event; the same key is the same event
    list         optional: id of the list in which the item was shown

A row that is no event is refused with a reason, and the others are taken. A sentence states the
limit and the mend, and never holds what was sent: it may end in a log.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from producers.edge.events import event, strict_json
from producers.edge.events.event import Event, Refused, item_id, user_id
from producers.edge.events.feedback_types import FeedbackTypes
from producers.edge.events.strict_json import REPEATED, Malformed

MAX_ROWS = 10_000
MAX_KEY_BYTES = 256
MAX_LIST = 32
_FIELDS = frozenset({"user", "item", "type", "value", "rating", "time", "key", "list"})


def decode(
    body: bytes, content_type: str, now_ms: int, types: FeedbackTypes
) -> list[Event | Refused]:
    """Return the rows of a body in their order; one refusal with row 0 where it has none."""
    try:
        rows = _rows(body, "ndjson" in content_type)
    except Malformed as error:
        return [Refused(0, error.reason, f"{error}")]
    return [event_of(found, row, now_ms, types) for row, found in rows]


def event_of(found: object, row: int, now_ms: int, types: FeedbackTypes) -> Event | Refused:
    """Return the event of a decoded row, or why it is none."""
    try:
        return _event(found, now_ms, types)
    except Malformed as defect:
        return Refused(row, defect.reason, f"{defect}")


def _rows(body: bytes, by_line: bool) -> list[tuple[int, Any]]:
    if body.count(b"{") + body.count(b"[") > 4 * MAX_ROWS:
        raise _too_many()
    if by_line:
        return _lines(body)
    try:
        whole = strict_json.read(strict_json.text_of(body))
    except Malformed:
        found = _lines(body)
        if len(found) < 2 or isinstance(found[0][1], Malformed):
            raise
        return found
    rows = whole if isinstance(whole, list) else [whole]
    if not rows:
        raise Malformed("empty", "the body holds no event")
    if len(rows) > MAX_ROWS:
        raise _too_many()
    return list(enumerate(rows, 1))


def _lines(body: bytes) -> list[tuple[int, Any]]:
    lines = [(row, line) for row, line in enumerate(body.splitlines(), 1) if line.strip()]
    if not lines:
        raise Malformed("empty", "the body holds no event")
    if len(lines) > MAX_ROWS:
        raise _too_many()
    return [(row, strict_json.read_line(line)) for row, line in lines]


def _too_many() -> Malformed:
    return Malformed("too_many_rows", f"above {MAX_ROWS:,} rows; send several bodies")


def _event(row: Any, now_ms: int, types: FeedbackTypes) -> Event:
    if isinstance(row, Malformed):
        raise row
    if row is REPEATED:
        raise Malformed("field_repeated", "the object names a field twice; name it once")
    if not isinstance(row, dict):
        raise Malformed("not_an_object", "an event is an object with user, item and type")
    if not row.keys() <= _FIELDS:
        raise Malformed(
            "field_unknown", f"the object has another field than {', '.join(sorted(_FIELDS))}"
        )
    user, item = _id("user", user_id, row), _id("item", item_id, row)
    type, value = _type_and_value(row, types)
    at = _at(row.get("time"), now_ms)
    key, list_id = _text("key", row, MAX_KEY_BYTES), _text("list", row, MAX_LIST)
    return Event(user, item, type, value, at, key, list_id)


def _id(field: str, form: Callable[[object], str], row: dict[str, Any]) -> str:
    found = row.get(field)
    if found is None:
        raise Malformed(f"{field}_missing", f"{field} is missing")
    try:
        return form(found)
    except ValueError as error:
        raise Malformed(f"{field}_invalid", f"{field}: {error}") from None


def _type_and_value(row: dict[str, Any], types: FeedbackTypes) -> tuple[str, float | None]:
    found, value = row.get("type"), row.get("value")
    if "rating" in row:
        if "type" in row or "value" in row:
            raise Malformed("type_twice", "rating stands for type and value; give it without them")
        found, value = "rating", row["rating"]
    if found is None:
        raise Malformed("type_missing", f"type is missing; it is one of {types.names}")
    if not isinstance(found, str) or found not in types.table:
        raise Malformed(
            "type_unknown", f"type must be one of {types.names}; [feedback] adds others"
        )
    if value is not None and not (type(value) in (int, float) and math.isfinite(value)):
        raise Malformed("value_invalid", "value must be a finite number")
    try:
        types.worth(found, value)
    except ValueError:
        reason = "value_missing" if value is None else "value_off_scale"
        raise Malformed(reason, f"value must be a number on the scale {types.scale}") from None
    return found, None if value is None else float(value)


def _at(found: object, now_ms: int) -> int:
    if found is None:
        return now_ms
    try:
        at = event.milliseconds(found)
    except (ValueError, OverflowError) as error:
        raise Malformed("time_invalid", f"time: {error}") from None
    if at < 0:
        raise Malformed("time_invalid", "time lies before 1970")
    if at > now_ms + event.DAY:
        raise Malformed("time_future", "time lies more than a day in the future; check the clock")
    return at


def _text(field: str, row: dict[str, Any], most: int) -> str | None:
    found = row.get(field)
    if found is None:
        return None
    try:
        if isinstance(found, str) and "\0" not in found and 1 <= len(found.encode()) <= most:
            return found
    except UnicodeEncodeError:
        pass
    raise Malformed(f"{field}_invalid", f"{field} must be text of 1 to {most} bytes of UTF-8")

"""The body of a request, or the row of a record, as events.

    {"user":"cust-44","item":"SKU-2571","type":"purchase","time":"2026-05-01T12:00:00Z"}
    [{...}, {...}]         the same in a list
    {...} NEWLINE {...}    NDJSON

    user, item   text, or a whole number
    type         one of the site's feedback types; `"rating": 4` stands for type and value
    value        a number; where the type is a rating, one on the site's scale
    time         `times`; without one the time of receipt, and then two sendings are two events
    key          optional: the site's name of the event; the same key is the same event
    list         optional: id of the list in which the item was shown

A row that is no event is refused with a reason, and the others are taken. A sentence states the
limit and the mend, and never holds what was sent: it may end in a log.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from producers.edge.events import event, strict_json
from producers.edge.events.event import Event, Refused, item_id, user_id
from producers.edge.events.feedback_types import FeedbackTypes
from producers.edge.events.strict_json import REPEATED, Malformed

MAX_BODY_BYTES = 4 << 20
MAX_ROWS = 10_000
MAX_KEY_BYTES = 256
MAX_LIST = 32
_LINES = {"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonl",
          "application/json-lines", "application/jsonlines"}  # fmt: skip
# The last ones are what curl and browsers send where nothing is given.
_ANY = {"application/json", "", "text/plain", "application/octet-stream",
        "application/x-www-form-urlencoded"}  # fmt: skip
_FIELDS = frozenset({"user", "item", "type", "value", "rating", "time", "key", "list"})


def decode(
    body: bytes, content_type: str, now_ms: int, types: FeedbackTypes
) -> list[Event | Refused]:
    """Return the rows of a body in their order; one refusal with row 0 where it has none."""
    try:
        rows = list(_rows(body, content_type))
    except Malformed as error:
        return [Refused(0, error.reason, f"{error}")]
    return [
        found if isinstance(found, Refused) else event_of(found, row, now_ms, types)
        for row, found in rows
    ]


def event_of(found: object, row: int, now_ms: int, types: FeedbackTypes) -> Event | Refused:
    """Return the event of a decoded row, or why it is none."""
    try:
        return _event(found, now_ms, types)
    except _Defect as defect:
        return Refused(row, defect.reason, f"{defect}")


def _rows(body: bytes, content_type: str) -> Iterator[tuple[int, Any]]:
    if len(body) > MAX_BODY_BYTES:
        raise Malformed(
            "body_too_large", f"the body is above {MAX_BODY_BYTES:,} bytes; send several"
        )
    kind, _, rest = content_type.lower().partition(";")
    charset = rest.partition("charset=")[2].split(";")[0].strip(' "')
    if kind.strip() not in _LINES | _ANY or charset not in ("", "utf-8", "utf8", "us-ascii"):
        raise Malformed(
            "content_type",
            "the body must be UTF-8 of type application/json or application/x-ndjson",
        )
    if strict_json.brackets(body) > 4 * MAX_ROWS:
        raise Malformed("too_many_rows", f"above {MAX_ROWS:,} rows; send several bodies")
    lines = body.splitlines()
    if kind.strip() in _LINES or _is_by_line(lines):
        found = _by_line(lines)
    else:
        whole = strict_json.read(strict_json.text_of(body))
        found = list(enumerate(whole if isinstance(whole, list) else [whole], 1))
    if not found:
        raise Malformed("empty", "the body holds no event")
    if len(found) > MAX_ROWS:
        raise Malformed("too_many_rows", f"above {MAX_ROWS:,} rows; send several bodies")
    yield from found


def _is_by_line(lines: list[bytes]) -> bool:
    """Return whether the first of several lines is an object by itself."""
    filled = [line for line in lines if line.strip()]
    if len(filled) < 2 or not filled[0].lstrip(b"\xef\xbb\xbf \t").startswith(b"{"):
        return False
    try:
        strict_json.read(strict_json.text_of(filled[0]))
    except Malformed:
        return False
    return True


def _by_line(lines: list[bytes]) -> list[tuple[int, Any]]:
    found: list[tuple[int, Any]] = []
    for row, line in enumerate(lines, 1):
        if line.strip():
            try:
                found.append((row, strict_json.read(strict_json.text_of(line))))
            except Malformed as error:
                found.append((row, Refused(row, error.reason, f"{error}")))
    return found


class _Defect(Exception):
    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


def _event(row: Any, now_ms: int, types: FeedbackTypes) -> Event:
    if row is REPEATED:
        raise _Defect("field_repeated", "the object names a field twice; name it once")
    if not isinstance(row, dict):
        raise _Defect("not_an_object", "an event is an object with user, item and type")
    if not row.keys() <= _FIELDS:
        raise _Defect(
            "field_unknown", f"the object has another field than {', '.join(sorted(_FIELDS))}"
        )
    user, item = _id("user", row), _id("item", row)
    type, value = _type_and_value(row, types)
    at = _at(row.get("time"), now_ms)
    key, list_id = _text("key", row, MAX_KEY_BYTES), _text("list", row, MAX_LIST)
    return Event(user, item, type, value, at, key, list_id)


def _id(field: str, row: dict[str, Any]) -> str:
    found = row.get(field)
    if found is None:
        raise _Defect(f"{field}_missing", f"{field} is missing")
    try:
        return (user_id if field == "user" else item_id)(found)
    except ValueError as error:
        raise _Defect(f"{field}_invalid", f"{field}: {error}") from None


def _type_and_value(row: dict[str, Any], types: FeedbackTypes) -> tuple[str, float | None]:
    type, value = row.get("type"), row.get("value")
    if "rating" in row:
        if "type" in row or "value" in row:
            raise _Defect("type_twice", "rating stands for type and value; give it without them")
        type, value = "rating", row["rating"]
    if type is None:
        raise _Defect("type_missing", f"type is missing; it is one of {types.names}")
    if not isinstance(type, str) or type not in types.meanings:
        raise _Defect("type_unknown", f"type must be one of {types.names}; [feedback] adds others")
    if value is not None and (
        isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value)
    ):
        raise _Defect("value_invalid", "value must be a finite number")
    try:
        types.worth(type, value)
    except ValueError:
        reason = "value_missing" if value is None else "value_off_scale"
        raise _Defect(reason, f"value must be a number on the scale {types.scale}") from None
    return type, None if value is None else float(value)


def _at(found: object, now_ms: int) -> int:
    if found is None:
        return now_ms
    try:
        at = event.milliseconds(found)
    except (ValueError, OverflowError) as error:
        raise _Defect("time_invalid", f"time: {error}") from None
    if at < 0:
        raise _Defect("time_invalid", "time lies before 1970")
    if at > now_ms + event.DAY:
        raise _Defect("time_future", "time lies more than a day in the future; check the clock")
    return at


def _text(field: str, row: dict[str, Any], most: int) -> str | None:
    found = row.get(field)
    if found is None:
        return None
    if isinstance(found, str) and 1 <= len(found) <= most and "\0" not in found:
        try:
            if len(found.encode()) <= most:
                return found
        except UnicodeEncodeError:
            pass
    raise _Defect(f"{field}_invalid", f"{field} must be text of 1 to {most} bytes of UTF-8")

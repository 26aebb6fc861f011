"""Exports of Gorse and Metarank, written from their documentation, are events and items."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from producers.datasets.item_files import ItemRow
from producers.edge.events.event import Event, Refused
from producers.edge.events.event_files import Row, rows_of
from producers.edge.events.feedback_rows import FeedbackRows
from producers.edge.events.feedback_types import FeedbackTypes
from producers.edge.store.database import Database
from stream_app.errors import UserError

TYPES = FeedbackTypes()
AT = 1_635_057_740_207

GORSE_FEEDBACK = [
    {"FeedbackType": "read", "UserId": "jack", "ItemId": "10086", "Value": 0,
     "Timestamp": "2021-10-24T06:42:20.207Z", "Comment": ""},
    {"FeedbackType": "rating", "UserId": "jack", "ItemId": "vuejs:vue", "Value": 4,
     "Timestamp": "2021-10-24T06:42:20.207123456Z", "Comment": ""},
    {"FeedbackType": "like", "UserId": "bob", "ItemId": "a", "Timestamp": "0001-01-01T00:00:00Z"},
    {"FeedbackType": "share", "UserId": "bob", "ItemId": "a", "Timestamp": "2021-10-24T06:42:20Z"},
]  # fmt: skip
GORSE_ITEMS = [
    {"ItemId": "1", "IsHidden": False, "Categories": ["x", "y"],
     "Timestamp": "2020-01-01T01:01:01Z", "Labels": ["b", "c"], "Comment": "one"},
    {"ItemId": "2", "IsHidden": True, "Categories": None, "Timestamp": "0001-01-01T00:00:00Z",
     "Labels": {"genre": ["comedy", "sci-fi"], "embedding": [0.1, 0.2], "size": 4, "deep": {}},
     "Comment": "<b>two</b>" * 100},
    {"ItemId": "", "IsHidden": False, "Categories": [], "Labels": None, "Comment": ""},
]  # fmt: skip
READ_ITEMS = [
    ItemRow(item="1", categories=("x", "y"), labels=("b", "c"), title="one",
            added=1_577_840_461_000),
    ItemRow(item="2", hidden=True, title=("<b>two</b>" * 100)[:500],
            attributes={"genre": ("comedy", "sci-fi"), "size": 4.0}),
]  # fmt: skip
# As the tests of Gorse 0.4 show its export.
GORSE_ITEMS_CSV = (
    "item_id,is_hidden,categories,time_stamp,labels,description\r\n"
    "1,false,x|y,2020-01-01 01:01:01.000000001 +0000 UTC,b|c,one\r\n"
    '2,true,,2022-01-01 01:01:01 +0000 UTC,"{""genre"":[""comedy""]}","t\r\nw,o"\r\n'
    '3,true,,0001-01-01 00:00:00 +0000 UTC,null,"""three"""\r\n'
)
GORSE_FEEDBACK_CSV = (
    "feedback_type,user_id,item_id,time_stamp\r\n"
    "click,0,2,0001-01-01 00:00:00 +0000 UTC\r\n"
    "read,2,6,2021-10-24 08:42:20.207 +0200 CEST\r\n"
    "share,1,4,2021-10-24 06:42:20 +0000 UTC\r\n"
)
METARANK = [
    {"event": "item", "id": "e1", "timestamp": str(AT), "item": "item1",
     "fields": [{"name": "title", "value": "You favourite cat"},
                {"name": "color", "value": ["white", "black"]}, {"name": "is_cute", "value": True},
                {"name": "price", "value": 5}, {"name": "scores", "value": [1, 2]}]},
    {"event": "user", "id": "e2", "timestamp": str(AT), "user": "user1",
     "fields": [{"name": "age", "value": 33}]},
    {"event": "ranking", "id": "e3", "timestamp": str(AT), "user": "user1", "session": "s1",
     "items": [{"id": "item3", "relevancy": 2.0}, {"id": "item1"}]},
    {"event": "interaction", "id": "e4", "ranking": "e3", "timestamp": str(AT), "user": "user1",
     "session": "s1", "type": "purchase", "item": "item1",
     "fields": [{"name": "count", "value": 1}]},
    {"event": "interaction", "id": "e5", "timestamp": "2021-10-24T06:42:20Z", "user": "user1",
     "type": "rating", "item": "item2", "fields": [{"name": "stars", "value": 4}]},
    {"event": "interaction", "id": "e6", "timestamp": AT, "session": "s2", "type": "click",
     "item": "item1"},
    {"event": "item", "id": "e7", "timestamp": AT + 5, "item": "item1",
     "fields": [{"name": "price", "value": 6}]},
    {"event": "teleport", "id": "e8", "timestamp": AT},
]  # fmt: skip


def written(folder: Path, name: str, found: str | list[dict[str, Any]]) -> Path:
    text = found if isinstance(found, str) else "".join(json.dumps(row) + "\n" for row in found)
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def read(path: Path) -> list[Row]:
    return list(rows_of(path, TYPES))


def test_feedback_of_gorse_as_json_lines(tmp_path: Path):
    path = written(tmp_path, "feedback.jsonl", GORSE_FEEDBACK)
    first, rating, untimed, unknown = read(path)
    assert first == Event("jack", "10086", "view", 0.0, AT)
    assert rating == Event("jack", "vuejs:vue", "rating", 4.0, AT)
    assert isinstance(untimed, Event)
    assert untimed.key is not None
    assert isinstance(unknown, Refused)
    assert (unknown.row, unknown.reason) == (4, "type_unknown")


def test_feedback_of_gorse_as_csv(tmp_path: Path):
    found = read(written(tmp_path, "feedback.csv", GORSE_FEEDBACK_CSV))
    assert [type(row) for row in found] == [Event, Event, Refused]
    assert found[1] == Event("2", "6", "view", None, AT)


def test_a_user_of_gorse_as_number_or_as_text_is_one(tmp_path: Path):
    line = '{"FeedbackType":"read","UserId":%s,"ItemId":"6"}\n'
    first, second = read(written(tmp_path, "feedback.jsonl", line % 7 + line % '"7"'))
    assert isinstance(first, Event)
    assert first == second
    assert first.key is not None


def test_items_of_gorse(tmp_path: Path):
    *items, refused = read(written(tmp_path, "items.jsonl.gz", GORSE_ITEMS))
    assert items == READ_ITEMS
    assert isinstance(refused, Refused)
    assert (refused.row, refused.reason) == (3, "item_invalid")
    assert read(written(tmp_path, "items.csv", GORSE_ITEMS_CSV)) == [
        READ_ITEMS[0],
        ItemRow(item="2", hidden=True, title="t\r\nw,o", attributes={"genre": ("comedy",)},
                added=1_640_998_861_000),
        ItemRow(item="3", hidden=True, title='"three"'),
    ]  # fmt: skip


def test_users_of_gorse_are_passed_over(tmp_path: Path):
    users = [{"UserId": "jack", "Labels": ["a"], "Comment": ""}, {"UserId": "b", "Labels": None}]
    assert read(written(tmp_path, "users.jsonl", users)) == []
    assert read(written(tmp_path, "users.csv", 'user_id,labels\r\n0,"[""a""]"\r\n')) == []


def test_events_of_metarank(tmp_path: Path):
    purchase, rating, anonymous, unknown, item = read(
        written(tmp_path, "events.jsonl.gz", METARANK)
    )
    assert purchase == Event("user1", "item1", "purchase", None, AT)
    assert rating == Event("user1", "item2", "rating", 4.0, 1_635_057_740_000)
    assert [(row.row, row.reason) for row in (anonymous, unknown) if isinstance(row, Refused)] == [
        (6, "user_missing"),
        (8, "user_missing"),
    ]
    assert item == ItemRow(
        item="item1",
        title="You favourite cat",
        price=6.0,
        attributes={"color": ("white", "black"), "is_cute": True},
        added=AT,
    )


def test_a_bad_line_spoils_no_other(tmp_path: Path):
    good = json.dumps(GORSE_FEEDBACK[0])
    text = "\n".join([good, "{", '{"a":1,"a":2}', "7", good, "[" * 5_000, good])
    found = read(written(tmp_path, "feedback.jsonl", text))
    assert [isinstance(row, Event) for row in found] == [
        True, False, False, False, True, False, True,
    ]  # fmt: skip


def test_what_cannot_be_read_is_one_sentence(tmp_path: Path):
    with pytest.raises(UserError, match="cannot be read"):
        read(tmp_path / "none.jsonl")
    (tmp_path / "backup.bin").write_bytes(b"\x0a\xff\xfe\x00")
    with pytest.raises(UserError, match="binary dump"):
        read(tmp_path / "backup.bin")
    cut = written(tmp_path, "cut.jsonl.gz", GORSE_FEEDBACK * 500)
    cut.write_bytes(cut.read_bytes()[:-40])
    with pytest.raises(UserError, match=r"cut\.jsonl\.gz"):
        read(cut)


def test_an_export_that_is_imported_again_counts_once(tmp_path: Path, database: Database):
    path = written(tmp_path, "feedback.jsonl", GORSE_FEEDBACK)
    writer = FeedbackRows(database, TYPES, signed=False)
    for expected in (True, False):
        events = [row for row in read(path) if isinstance(row, Event)]
        assert writer.write(events) == [expected] * 3

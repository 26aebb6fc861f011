"""A site's own file of events."""

from __future__ import annotations

import csv
import io
import json
import tracemalloc

import pytest

from producers.datasets.item_files import rows_of as items_of
from producers.edge.events.event import Event, Refused
from producers.edge.events.event_files import rows_of
from producers.edge.events.feedback_types import FeedbackTypes
from stream_app.errors import UserError
from tests.fixtures.awkward_ids import PAIRS

TYPES = FeedbackTypes()


def read(tmp_path, text, name="events.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return list(rows_of(path, TYPES))


def test_a_csv_of_ratings_is_read_by_its_header(tmp_path):
    text = "\ufeffUser ID,sku,Rating,timestamp\nann,SKU-1,4,1700000000\nbob,SKU-2,,1700000001\n"
    first, second = read(tmp_path, text)
    assert (first.user, first.item, first.type, first.value) == ("ann", "SKU-1", "rating", 4.0)
    assert first.at == 1_700_000_000_000
    assert (second.type, second.value) == ("view", None)


def test_lines_of_json_are_events_of_the_interface(tmp_path):
    text = '{"user":"ann","item":"x","type":"like"}\n\n{"user":"ann"}\nnonsense\n'
    first, second, third = read(tmp_path, text, "events.ndjson")
    assert isinstance(first, Event)
    assert [second.reason, third.reason] == ["item_missing", "not_json"]


@pytest.mark.parametrize("kind", ["csv", "ndjson"])
def test_ids_of_a_file_are_those_that_were_written(tmp_path, kind):
    ids = list(dict.fromkeys(each for pair in PAIRS for each in pair))
    file = io.StringIO(newline="")
    if kind == "csv":
        rows = [("user", "item", "title"), *((each, each, "shoe") for each in ids)]
        csv.writer(file).writerows(rows)
    else:
        for each in ids:
            file.write(json.dumps({"user": each, "item": each, "title": "shoe"}) + "\n")
    found = read(tmp_path, file.getvalue(), f"events.{kind}")
    assert [(event.user, event.item) for event in found] == [(each, each) for each in ids]
    items = items_of(file.getvalue().encode(), f"text/{kind}")
    assert [row.item for row in items.rows] == ids


def test_a_file_that_is_read_again_has_the_same_events(tmp_path):
    text = "user,item,type\nann,x,view\nann,x,view\nann,y,view\n"
    first, again = read(tmp_path, text), read(tmp_path, text)
    tokens = [event.token for event in first]
    assert tokens == [event.token for event in again]
    assert len(set(tokens)) == 3  # two views are two events


def test_rows_that_are_none_are_told_apart(tmp_path):
    text = "user,item,rating\nann,x,9\n,x,3\nann,x,many\nann\n"
    found = read(tmp_path, text)
    assert all(isinstance(row, Refused) for row in found)
    assert not any("many" in row.sentence for row in found)


@pytest.mark.parametrize("text", [b"", b"a,b\n1,2\n", b"user,thing\n", b"user,item\n\xff\xfe,1\n"])
def test_a_file_without_events_is_a_sentence(tmp_path, text):
    with pytest.raises(UserError, match=r"events\.csv"):
        read(tmp_path, text)


def test_an_absent_file_is_a_sentence(tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        list(rows_of(tmp_path / "absent.csv", TYPES))


@pytest.mark.parametrize("head", [b"user,item,rating\n", b'{"user":"ann"}\n'])
def test_a_line_without_an_end_is_refused_before_it_is_held(head, tmp_path):
    path = tmp_path / "events.csv"
    path.write_bytes(head)
    with path.open("r+b") as file:
        file.truncate(800 << 20)
    tracemalloc.start()
    with pytest.raises(UserError, match="line 2 is above 1,048,576 characters"):
        list(rows_of(path, TYPES))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 32 << 20

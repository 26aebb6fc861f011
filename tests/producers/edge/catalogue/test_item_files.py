"""Any file of items with a header is read, and says what it was taken for."""

from __future__ import annotations

import io
import json
import tracemalloc
from typing import Any

import pytest

from producers.datasets.item_files import ItemFile, read, rows_of
from producers.edge.catalogue.site_catalogue import Catalogue, ItemRow
from producers.edge.store.database import Database
from stream_app.errors import UserError

CSV = """item_id,Title,Genres,PRICE,In Stock,image-url,attributes.size,warehouse
SKU-1,"Shoe, red (2021)",Shoes|Sport,89.90,yes,https://x/1.png,42,A
SKU-2,<b>Hat</b>,Hats; Sun,12 EUR,out of stock,,M,B
"""
ROWS = [
    ItemRow(
        item="SKU-1",
        title="Shoe, red (2021)",
        categories=("Shoes", "Sport"),
        price=89.9,
        year=2021,
        image="https://x/1.png",
        attributes={"size": 42.0},
    ),
    ItemRow(
        item="SKU-2",
        title="<b>Hat</b>",
        categories=("Hats", "Sun"),
        price=12.0,
        available=False,
        attributes={"size": "M"},
    ),
]
OBJECTS: list[dict[str, Any]] = [
    {"id": 7, "name": "A", "category": "X", "tags": ["t", "u"], "year": 1999, "extra": 1},
    {"id": "b", "attributes": {"n": 1, "s": "x", "b": True, "l": ["p"]}, "added": "2026-05-01"},
]
READ = [
    ItemRow(item="7", title="A", categories=("X",), labels=("t", "u"), year=1999),
    ItemRow(
        item="b",
        attributes={"n": 1.0, "s": "x", "b": True, "l": ("p",)},
        added=1_777_593_600_000,
    ),
]


def test_a_csv_is_recognised_by_its_header():
    found = rows_of(CSV.encode(), "text/csv")
    assert found.rows == ROWS
    assert found.refused == []
    assert found.recognised == {
        "item_id": "item",
        "Title": "title",
        "Genres": "categories",
        "PRICE": "price",
        "In Stock": "available",
        "image-url": "image",
        "attributes.size": "attributes.size",
    }
    assert found.ignored == ["warehouse"]


@pytest.mark.parametrize("separator", ";\t|")
def test_other_separators_and_a_byte_order_mark(separator: str):
    body = f"\ufeffsku{separator}name\r\na{separator}A, or B\r\n".encode()
    for kind in ("text/csv", "", "text/plain"):
        assert rows_of(body, kind).rows == [ItemRow(item="a", title="A, or B")]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (json.dumps(OBJECTS), "application/json"),
        (json.dumps(OBJECTS, indent=1), ""),
        ("\n".join(map(json.dumps, OBJECTS)), "application/x-ndjson"),
        ("\n\n".join(map(json.dumps, OBJECTS)), ""),
    ],
)
def test_json_in_its_forms(body: str, kind: str):
    found = rows_of(body.encode(), kind)
    assert found.rows == READ
    assert found.ignored == ["extra"]


def test_one_object_is_one_item():
    assert rows_of(json.dumps(OBJECTS[0]).encode(), "application/json").rows == READ[:1]


def test_parquet_where_pyarrow_is_installed():
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    stream = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist([
        {"item_id": 1, "title": "A", "price": 2.5, "genres": ["x", "y"]},
        {"item_id": 2, "title": None, "price": None, "genres": None},
    ]), stream)  # fmt: skip
    found = rows_of(stream.getvalue(), "")
    assert found.rows == [
        ItemRow(item="1", title="A", price=2.5, categories=("x", "y")),
        ItemRow(item="2"),
    ]
    assert reasons(rows_of(b"PAR1 and nothing", "")) == ["not_parquet"]


def bomb(columns: dict[str, Any], **options: Any) -> bytes:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    stream = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), stream, compression="zstd", **options)
    return stream.getvalue()


BIG = "x" * (1 << 20)
BOMBS = {
    "rows": ("too_many_rows", {"item_id": [1] * 6_000_000}, {}),
    "values of one row": ("too_many_rows", {"item_id": [1], "genres": [["x"] * 200_000]}, {}),
    "one text in every row": ("cell", {"item_id": [*range(50)], "title": [BIG] * 50}, {}),
    "one text in every list": ("cell", {"item_id": [1, 2], "genres": [[BIG] * 9] * 2}, {}),
    "texts": ("row_group", {"item_id": [BIG] * 65}, {"use_dictionary": False}),
    "a text in every object": ("cell", {"item_id": [1], "attributes": [{"a": BIG}]}, {}),
}


@pytest.mark.parametrize(("reason", "columns", "options"), BOMBS.values(), ids=BOMBS)
def test_what_parquet_claims_is_refused_before_it_is_held(reason, columns, options):
    body = bomb(columns, **options)
    assert len(body) < 64 << 10
    tracemalloc.start()
    found = rows_of(body, "")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (found.rows, reasons(found)) == ([], [reason])
    assert peak < 16 << 20


LINES = {"head": b"", "row": b"item,title\n1,a\n2,", "objects": b'{"item":1}\n{"item":"'}


@pytest.mark.parametrize("kind", ["", "csv", "ndjson"])
@pytest.mark.parametrize("begun", LINES.values(), ids=LINES)
def test_a_line_without_an_end_is_refused_before_it_is_decoded(kind, begun):
    body = begun + b"x" * (24 << 20)
    tracemalloc.start()
    found = rows_of(body, kind)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert reasons(found)[0] in {"line", "not_csv"}
    assert peak < 100 << 20
    for size, reason in ((200_000, "not_csv"), (2 << 20, "line")):
        assert reasons(rows_of(b"x" * size, "csv")) == [reason]


def test_a_file_of_items_is_measured_before_it_is_read(tmp_path):
    path = tmp_path / "items.csv"
    with path.open("wb") as file:
        file.truncate(800 << 20)
    with pytest.raises(UserError, match="has 800 MiB, a file of items at most 512"):
        read(path)


def test_without_pyarrow_the_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (refusal,) = rows_of(b"PAR1", "").refused
    assert "murmurec[edge]" in refusal.sentence


def reasons(found: ItemFile) -> list[str]:
    return [each.reason for each in found.refused]


WRONG = {
    "no item": ("", "item_invalid"),
    "a long item": ("i" * 200, "item_invalid"),
    "a price in words": ("a,T,dear", "price_invalid"),
    "a negative price": ("a,T,-5", "price_invalid"),
    "NaN": ("a,T,nan", "price_invalid"),
    "a long title": ("a," + "t" * 600, "title_invalid"),
    "a year in words": ("a,T,5,soon", "year_invalid"),
    "year 10000": ("a,T,5,10000", "year_invalid"),
    "perhaps there": ("a,T,5,1999,perhaps", "available_invalid"),
    "a program": ("a,T,5,1999,yes,javascript:alert(1)", "image_invalid"),
    "a time in words": ("a,T,5,1999,yes,,yesterday", "added_invalid"),
    "17 categories": ("a,T,5,1999,yes,,," + "|".join("abcdefghijklmnopq"), "categories_invalid"),
    "a long category": ("a,T,5,1999,yes,,," + "c" * 51, "categories_invalid"),
}
HEADER = "item,title,price,year,available,image,added,categories\n"


@pytest.mark.parametrize(("line", "reason"), WRONG.values(), ids=WRONG)
def test_a_row_that_is_no_item_spoils_no_other(line: str, reason: str):
    found = rows_of(f"{HEADER}x,X\n{line or ',none'}\ny,Y\n".encode(), "text/csv")
    assert [row.item for row in found.rows] == ["x", "y"]
    assert [(each.row, each.reason) for each in found.refused] == [(2, reason)]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (7, "row_invalid"),
        ([], "row_invalid"),
        ({"title": "no item"}, "item_invalid"),
        ({"item": "a", "nonsense": 1}, "row_invalid"),
        ({"item": {"id": 1}, "title": "a"}, "item_invalid"),
        ({"item": True, "title": "a"}, "item_invalid"),
        ({"item": "a", "title": ["a"]}, "title_invalid"),
        ({"item": "a", "price": True}, "price_invalid"),
        ({"item": "a", "year": 1999.5}, "year_invalid"),
        ({"item": "a", "categories": {"a": 1}}, "categories_invalid"),
        ({"item": "a", "labels": [1.5]}, "labels_invalid"),
        ({"item": "a", "attributes": [1]}, "attributes_invalid"),
        ({"item": "a", "attributes": {"a": {"b": 1}}}, "attributes_invalid"),
        ({"item": "a", "title": "\ud800"}, "title_invalid"),
    ],
)
def test_an_object_that_is_no_item_is_refused(row: Any, reason: str):
    found = rows_of(json.dumps([{"item": "x"}, row]).encode(), "application/json")
    assert [each.item for each in found.rows] == ["x"]
    assert reasons(found) == [reason]


@pytest.mark.parametrize(
    ("body", "kind", "reason"),
    [
        (b"", "text/csv", "no_item_column"),
        (b"title,price\na,5\n", "text/csv", "no_item_column"),
        (b"\xff\xfe", "text/csv", "not_utf8"),
        (b'item\n"' + b"x" * 200_000, "text/csv", "not_csv"),
        (b"{", "application/json", "not_json"),
        (b"[" * 9_000, "application/json", "nested"),
        (b'{"item":"a","item":"b"}', "application/json", "row_invalid"),
    ],
)
def test_a_file_that_is_none_is_refused(body: bytes, kind: str, reason: str):
    found = rows_of(body, kind)
    assert found.rows == []
    assert reasons(found) == [reason]


def test_many_unknown_names_stay_few():
    body = json.dumps([{"item": "a", "title": "t", f"x{n}": 1} for n in range(5_000)]).encode()
    found = rows_of(body, "application/json")
    assert len(found.rows) == 5_000
    assert len(found.ignored) <= 200


def test_what_was_read_can_be_put(database: Database):
    catalogue = Catalogue(database)
    assert catalogue.put_many(rows_of(CSV.encode(), "text/csv").rows) == 2
    found = catalogue.get("SKU-2")
    assert found is not None
    assert found.title == "<b>Hat</b>"

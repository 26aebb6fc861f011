"""`murmurec items publish`: any table of items with a header, whole or not at all."""

from __future__ import annotations

import io
import json
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from producers.catalogue_reader import file_entries
from stream_app.errors import UserError
from stream_app.wire import CatalogueEntry, key
from tests.fixtures.awkward_ids import PAIRS

ENTRIES = [
    CatalogueEntry(7, "<b>Heat</b>, 1995", ("Crime", "Drama"), 1995),
    CatalogueEntry("SKU-2", "Two"),
]


@pytest.mark.parametrize("separator", ",;\t")
@pytest.mark.parametrize("suffix", [".csv", ".txt", ".tsv", ""])
def test_any_separator_and_name(tmp_path: Path, separator: str, suffix: str):
    file = tmp_path / f"shop{suffix}"
    rows = [
        ("SKU", "Product name", "Genre", "release-year", "price"),
        ("7", '"<b>Heat</b>, 1995"', "Crime|Drama", "1995", "dear"),
        ("SKU-2", "Two", "", "", "5"),
    ]
    file.write_text("\ufeff" + "\r\n".join(map(separator.join, rows)), encoding="utf-8")
    found, columns = file_entries(file)
    assert found == ENTRIES
    assert columns == (
        "SKU as item, Product name as title, Genre as categories, release-year as year; "
        "ignored: price"
    )


def test_no_two_ids_of_a_file_are_one_item(tmp_path: Path):
    file = tmp_path / "items.ndjson"
    ids = [*dict.fromkeys(chain(*PAIRS))]
    file.write_text("".join(json.dumps({"item_id": each, "title": "x"}) + "\n" for each in ids))
    found, _ = file_entries(file)
    assert [str(each.item) for each in found] == ids
    assert len({key(each.item) for each in found}) == len(ids)


def test_parquet_and_one_that_is_cut(tmp_path: Path):
    pyarrow: Any = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    stream = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist([
        {"item_id": 7, "title": "<b>Heat</b>, 1995", "genres": ["Crime", "Drama"], "year": 1995.0},
        {"item_id": 7, "title": "<b>Heat</b>, 1995", "genres": ["Crime", "Drama"], "year": 1995.0},
    ]), stream)  # fmt: skip
    file = tmp_path / "shop.parquet"
    file.write_bytes(stream.getvalue())
    assert file_entries(file)[0] == ENTRIES[:1]
    for cut in (0, 3, 40, -5):
        file.write_bytes(stream.getvalue()[:cut])
        with pytest.raises(UserError, match=r"no whole Parquet; write it again"):
            file_entries(file)


WRONG = {
    "no item column": ("name,price\na,5\n", r"no column of items: item_id, item, .*correct"),
    "a column twice": ("id,title,Title\na,A,B\n", "names a column twice; rename one"),
    "an empty file": ("", "no column of items"),
    "a header alone": ("id,title\n", "has no rows"),
    "a long title": (f"id,title\na,A\nb,{'t' * 501}\n", r"row 2 .*title: Expected str of length"),
    "a title of half a MB": ("id,title\na," + "t" * (1 << 19),
                        "line 2 is no CSV, or a cell is above 131,072 characters"),
    "a late year": ("id,year\na,10000\n", r"row 1 .*year: Expected int <= 9999"),
    "no genre": ("id,genres\na,\x1b[2J\n", "categories: has 1 to 50 printable"),
    "no id": ("id,title\n,A\n", "row 1 .*item: is missing"),
    "two of one id": ("id,title\n7,A\n7,B\n", "item 7 stands in two rows that differ"),
    "seven of them": ("id,year\n" + "a,x\n" * 7, "; and 2 more; nothing was published"),
    "nothing known": ("id,price\na,5\n", "known are item, title, categories, year"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "sentence"), WRONG.values(), ids=WRONG)
def test_a_file_with_a_wrong_row_is_refused_whole(tmp_path: Path, text: str, sentence: str):
    file = tmp_path / "shop.csv"
    file.write_text(text)
    with pytest.raises(UserError, match=sentence):
        file_entries(file)


def test_bytes_that_are_no_utf8_and_no_file_at_all(tmp_path: Path):
    file = tmp_path / "shop.csv"
    with pytest.raises(UserError, match="cannot be read"):
        file_entries(file)
    file.write_bytes(b"id,title\n1,Caf\xe9\n")
    with pytest.raises(UserError, match="the text is not UTF-8; encode it as UTF-8"):
        file_entries(file)


def test_ratings_give_the_words_of_their_items_and_the_titles_beside_them(tmp_path: Path):
    file = tmp_path / "ratings.csv"
    file.write_text("user,item,rating\nann,film,4\nann,7,5\n")
    assert file_entries(file) == ([CatalogueEntry("film")], "")
    (tmp_path / "movies.csv").write_text("movieId,title\nfilm,A Film\n7,B\n")
    found = {entry.item: entry.title for entry in file_entries(file)[0]}
    assert found == {"film": "A Film", 7: "B"}
    headless = tmp_path / "mine.tsv"
    headless.write_text("ann\tfilm\t4\n")
    assert [entry.item for entry in file_entries(headless)[0]] == ["film", 7]

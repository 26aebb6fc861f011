"""Files of ratings that a user gives: what is read, and the sentence for each bad one."""

from __future__ import annotations

from pathlib import Path

import pytest

from producers.ranking.clean_history import RatedItem
from producers.ranking.rated_file import keys_in, rated_in
from producers.scale import Scale
from stream_app import wire
from stream_app.errors import UserError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "rated.csv"


def rows(file: Path, text: str, scale: Scale | None = None) -> list[tuple[wire.Item, float | None]]:
    file.write_text(text)
    return [(row.item, row.stars) for row in rated_in(file, scale or Scale())]


def test_items_with_and_without_ratings_are_read_in_their_order(file: Path) -> None:
    assert rows(file, "7\nalien, 5\n\n8,3\n9,\n") == [
        (7, None),
        ("alien", 5.0),
        (8, 3.0),
        (9, None),
    ]
    assert rated_in(file, Scale())[1] == RatedItem("alien", wire.key("alien"), 5.0)


def test_times_order_the_lines_and_a_head_is_skipped(file: Path) -> None:
    text = "item,rating,time\n1,5,300\n2,4,100\n3,3,200.5\n1,1,50\n"
    assert rows(file, text) == [(2, 4.0), (3, 3.0), (1, 5.0)]


def test_equal_times_keep_the_order_of_the_file(file: Path) -> None:
    assert rows(file, "3,1,9\n1,1,9\n2,1,9\n") == [(3, 1.0), (1, 1.0), (2, 1.0)]


def test_ratings_are_read_on_the_scale_of_the_user(file: Path) -> None:
    assert rows(file, "1,0.5\n2,5\n3,2.5\n", Scale(0.5, 5, 0.5)) == [
        (1, 1.0), (2, 5.0), (3, pytest.approx(1 + 16 / 9)),
    ]  # fmt: skip


def test_ten_thousand_items_are_read(file: Path) -> None:
    text = "\n".join(f"{item},{1 + item % 5},{item}" for item in range(10_000))
    assert len(rows(file, text)) == 10_000


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "holds no item"),
        ("\n\n", "holds no item"),
        ("item,rating\n", "holds no item"),
        ("1,2,3,4", "line 1: 4 fields; write item,rating,time"),
        ("1,5\n2,six", "line 2: the rating is not a number"),
        ("1,nan", "line 1: the rating is not a number"),
        ("1,6", "line 1: rating: must be a number on the scale 1..5 by 1"),
        ("1,5,noon", "line 1: the time is not a number"),
        ("1,5,inf", "line 1: the time is not a number"),
        (",5", "line 1: item of 0 bytes"),
        ("1,5,1\n2,5", "1 of 2 lines have a time: give all or none"),
        ("x" * 200, "line 1: item of 200 bytes"),
    ],
)
def test_a_bad_line_is_named(file: Path, text: str, sentence: str) -> None:
    with pytest.raises(UserError, match=str(file)) as refused:
        rows(file, text)
    assert sentence in str(refused.value)
    assert "six" not in str(refused.value)


def test_a_file_that_is_no_text_or_is_not_there_is_refused(file: Path, tmp_path: Path) -> None:
    file.write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(UserError, match="is not text in UTF-8; write one item,rating,time"):
        rated_in(file, Scale())
    with pytest.raises(UserError, match="cannot be read \\(No such file"):
        rated_in(tmp_path / "none", Scale())
    with pytest.raises(UserError, match="cannot be read \\(Is a directory"):
        rated_in(tmp_path, Scale())


def test_the_items_of_a_file_are_found_whatever_stands_after_them(file: Path) -> None:
    file.write_text("item,rating\n7,9.5,noon\nalien\nEight, and a Half\n" + "x" * 100 + ",5" * 40)
    assert keys_in(file) == {
        wire.key(item)
        for item in (7, "7,9.5,noon", "alien", "Eight", "Eight, and a Half", "x" * 100)
    }
    file.write_text(",5\n")
    with pytest.raises(UserError, match="line 1: item of 0 bytes"):
        keys_in(file)

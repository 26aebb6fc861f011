"""Files that are refused: one sentence with file and row, never an id or a rating."""

from __future__ import annotations

import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from producers.datasets.load import load
from stream_app.errors import UserError


@pytest.mark.parametrize("word", ["user", "item"])
@pytest.mark.parametrize("suffix", [".csv", ".dat", ".tsv", ".zip"])
def test_a_too_long_id_is_refused_before_it_takes_memory(
    suffix: str, word: str, tmp_path: Path
) -> None:
    rows = [["1", "2", "3"] for _ in range(5000)]
    rows[4321][word == "item"] = "x" * 100_000  # as a column of numpy's: 2 GB
    separator = {".csv": ",", ".tsv": "\t"}.get(suffix, "::")
    text = "".join(separator.join(row) + "\n" for row in rows)
    header = "user,item,rating\n" if suffix == ".csv" else ""
    file = tmp_path / f"mine{suffix}"
    if suffix == ".zip":
        with zipfile.ZipFile(file, "w") as target:
            target.writestr("ml/ratings.dat", text)
    else:
        file.write_text(header + text)
    row = 4322 + bool(header)
    with pytest.raises(UserError, match=f"the {word} in row {row} has 100000 characters"):
        load(file)


def test_a_line_without_an_end_is_refused_before_it_is_held(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_bytes(b"user,item,rating\n")
    with file.open("r+b") as sparse:
        sparse.truncate(800 << 20)
    tracemalloc.start()
    with pytest.raises(UserError, match="line 2 is above"):
        load(file)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 32 << 20


HEADER = "user,item,rating,timestamp\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "empty"),
        ("a.csv", b"\n", "must name the columns"),
        ("a.csv", HEADER.encode(), "has no ratings"),
        ("a.csv", b"name,price\nx,1\n", "must name the columns user,item,rating"),
        ("a.csv", HEADER.encode() + b"1,1,4,0\n1,2,good,0\n", "rating in row 3 is not a number"),
        ("a.csv", HEADER.encode() + b"1,1,4,0\n1,2,nan,0\n", "rating in row 3 is not a number"),
        ("a.csv", HEADER.encode() + b"1,1,4,0\n1,2,3,then\n", "timestamp in row 3 is not a number"),
        ("a.csv", HEADER.encode() + b"1,1,4,0\n1,2\n", "row 3 has 2 fields and needs 3"),
        ("a.csv", HEADER.encode() + b"1,1,4,0\n\n1,2,3,0\n", "row 3 has 0 fields"),
        ("a.csv", b"user,item,rating\n1,2,\xff\n", "not text in UTF-8"),
        ("ratings.dat", b"1,2,3,4\n", "row 1 has 1 fields"),
        ("ratings.dat", b"1::2::3::4\n1::2::\n", "rating in row 2"),
        ("u.data", b"a b c\n", "row 1 has 1 fields"),
        ("a.npz", b"no archive", "not a npz file"),
        ("a.npz", b"", "not a npz file"),
        ("ml-1m.zip", b"PK\x03\x04 broken", "not a whole zip archive"),
        ("a.txt", b"1 2 3", "not a file of ratings"),
        ("a.parquet", b"PAR1", "not a file of ratings"),
    ],
    ids=lambda value: value[:24] if isinstance(value, str) else None,
)  # fmt: skip
def test_an_unreadable_file_is_refused_with_one_sentence(
    name: str, content: bytes, message: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        load(tmp_path / name)
    assert "good" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"user": [1], "item": [1]}, "no array 'rating'"),
        ({"user": [1], "item": [1, 2], "rating": [1, 2]}, "columns of one length"),
        ({"user": [[1]], "item": [[1]], "rating": [[1]]}, "columns of one length"),
        ({"user": [], "item": [], "rating": []}, "has no ratings"),
        ({"user": [1], "item": [1], "rating": ["5"]}, "arrays of numbers"),
        ({"user": [1], "item": [1.5], "rating": [5]}, "integers or text"),
        (
            {"user": [1, 1], "item": [1, 2], "rating": [5, np.nan]},
            "rating in row 2 is not a number",
        ),
        ({"user": [1], "item": [1], "rating": [5], "timestamp": [np.inf]}, "timestamp in row 1"),
    ],
    ids=str,
)
def test_invalid_arrays_are_refused(
    arrays: dict[str, list[object]], message: str, tmp_path: Path
) -> None:
    np.savez(tmp_path / "a.npz", **{name: np.array(column) for name, column in arrays.items()})  # type: ignore[arg-type]
    with pytest.raises(UserError, match=message):
        load(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (",2,3", "the user in row 3 is empty; give 1 to 1024 bytes"),
        ("carol,,3", "the item in row 3 is empty; give 1 to 128 bytes"),
        ("é" * 600 + ",2,3", "the user in row 3 has 1200 bytes; give 1 to 1024"),
        ("carol," + "é" * 65 + ",3", "the item in row 3 has 130 bytes; give 1 to 128"),
        ("carol\0,2,3", "the user in row 3 holds the character NUL"),
        ("carol,2,4.2.1", "the rating in row 3 is not a number"),
        ("carol", "row 3 has 1 fields"),
    ],
    ids=range(7),
)
def test_a_bad_row_is_named_by_file_and_row_and_never_by_its_content(
    row: str, sentence: str, tmp_path: Path
) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(f"user,item,rating\nann,1,4\n{row}\n")
    with pytest.raises(UserError) as caught:
        load(file)
    assert str(caught.value).startswith(f"{file}: {sentence}")
    for content in ("carol", "é", "4.2.1", "ann,"):
        assert content not in str(caught.value).removeprefix(str(file))


@pytest.mark.parametrize(
    ("users", "items", "sentence"),
    [
        (["ann", ""], [1, 2], "the user in row 2 is empty"),
        (["ann", "c\0d"], [1, 2], "the user in row 2 holds the character NUL"),
        (["ann", "c\ud800"], [1, 2], "the user in row 2 is not valid Unicode"),
        ([1, 2], [1, -2], "the item in row 2 is a negative number"),
    ],
    ids=str,
)
def test_a_bad_id_in_an_array_is_named_by_its_row(
    users: list[object], items: list[object], sentence: str, tmp_path: Path
) -> None:
    np.savez(tmp_path / "a.npz", user=users, item=items, rating=[5, 4])
    with pytest.raises(UserError, match=sentence):
        load(tmp_path / "a.npz")


def test_a_bad_id_behind_many_rows_is_named_by_its_row(tmp_path: Path) -> None:
    users = np.array(["u"] * 70_000 + [""])
    np.savez(tmp_path / "a.npz", user=users, item=np.arange(70_001), rating=np.ones(70_001))
    with pytest.raises(UserError, match="the user in row 70001 is empty"):
        load(tmp_path / "a.npz")


def test_a_file_that_could_run_code_is_not_opened(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", user=np.array([print], object), item=[1], rating=[1])
    with pytest.raises(UserError, match="not a npz file of plain arrays"):
        load(tmp_path / "a.npz")


def test_an_absent_file_or_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        load(tmp_path / "nothing.csv")
    with pytest.raises(UserError, match="is a directory"):
        load(tmp_path)
    empty = tmp_path / "empty.zip"
    with zipfile.ZipFile(empty, "w") as target:
        target.writestr("readme.txt", "nothing")
    with pytest.raises(UserError, match=r"holds none of ratings\.dat"):
        load(empty)

"""Files of ratings: every usual form gives the same rows; anything else is one sentence."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from producers.datasets import tables
from producers.datasets.load import Dataset, find_scale, load
from producers.scale import Scale
from stream_app.errors import UserError

USERS, ITEMS, RATINGS, TIMES = [3, 1, 3, 2], [10, 20, 30, 10], [5, 1, 4, 3], [400, 100, 300, 300]
ROWS = list(zip(USERS, ITEMS, RATINGS, TIMES, strict=True))
MOVIES_DAT = "10::Café (1995)::Drama\n20::Two: The Return (1996)::Comedy|Drama\n30::Three::Drama\n"
TITLES = {10: "Café (1995)", 20: "Two: The Return (1996)", 30: "Three"}


def dat(path: Path) -> Path:
    file = path / "ratings.dat"
    file.write_text("".join("::".join(map(str, row)) + "\n" for row in ROWS))
    (path / "movies.dat").write_text(MOVIES_DAT, "latin-1")
    return file


def udata(path: Path) -> Path:
    file = path / "u.data"
    file.write_text("".join("\t".join(map(str, row)) + "\n" for row in ROWS))
    (path / "u.item").write_text(
        "".join(f"{i}|{t}|01-Jan-1995\n" for i, t in TITLES.items()), "latin-1"
    )
    return file


def movielens_csv(path: Path) -> Path:
    file = path / "ratings.csv"
    lines = "".join(",".join(map(str, row)) + "\r\n" for row in ROWS)
    file.write_text(f"userId,movieId,rating,timestamp\r\n{lines}")
    (path / "movies.csv").write_text(
        "movieId,title,genres\n" + "".join(f'{i},"{t}",Drama\n' for i, t in TITLES.items())
    )
    return file


def plain_csv(path: Path) -> Path:
    file = path / "mine.csv"
    lines = "".join(f"{time},{rating}.0,x,{item},{user}\n" for user, item, rating, time in ROWS)
    file.write_text(f"\ufefftimestamp, Rating,note,item,user\n{lines}\n")
    return file


def npz(path: Path) -> Path:
    file = path / "mine.npz"
    np.savez(file, user=USERS, item=ITEMS, rating=np.array(RATINGS, np.float32), timestamp=TIMES)
    np.savez(path / "movies.npz", item=list(TITLES), title=list(TITLES.values()))
    return file


def archive(path: Path) -> Path:
    dat(path)
    file = path / "ml-1m.zip"
    with zipfile.ZipFile(file, "w") as target:
        target.write(path / "ratings.dat", "ml-1m/ratings.dat")
        target.write(path / "movies.dat", "ml-1m/movies.dat")
    return file


@pytest.mark.parametrize("write", [dat, udata, movielens_csv, plain_csv, npz, archive])
def test_every_form_of_a_file_gives_the_same_rows(
    write: Callable[[Path], Path], tmp_path: Path
) -> None:
    found = load(write(tmp_path))
    assert found.users.tolist() == USERS
    assert found.items.tolist() == ITEMS
    assert found.ratings.tolist() == RATINGS
    assert found.levels.tolist() == [rating - 1 for rating in RATINGS]
    assert found.timestamps is not None
    assert found.timestamps.tolist() == TIMES
    assert (found.scale, found.refused, len(found)) == (Scale(1, 5, 1), 0, 4)
    assert found.titles == (None if write is plain_csv else TITLES)
    assert found.levels.dtype == np.uint8
    assert found.ratings.dtype == np.float64


def test_time_order_is_stable(tmp_path: Path) -> None:
    ordered = load(dat(tmp_path)).in_time_order()
    assert list(zip(ordered.users.tolist(), ordered.items.tolist(), strict=True)) == [
        (1, 20), (3, 30), (2, 10), (3, 10),
    ]  # fmt: skip
    assert ordered.ratings.tolist() == [1, 4, 3, 5]


def test_a_file_without_times_keeps_its_order(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("user,item,rating\n2,1,5\n1,1,4\n")
    found = load(file)
    assert found.timestamps is None
    assert found.in_time_order() is found


def test_ids_may_be_text_and_one_text_makes_a_column_text(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text('user,item,rating\nann,1,5\n"b, c",007,4\n3,x,1\n')
    found = load(file)
    assert found.users.tolist() == ["ann", "b, c", "3"]
    assert found.items.tolist() == ["1", "007", "x"]


def test_the_blocks_of_a_large_file_are_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_BLOCK", 3)
    file = tmp_path / "ratings.dat"
    file.write_text("".join(f"{n}::{'x' if n == 7 else n}::{n % 5 + 1}::{n}\n" for n in range(10)))
    found = load(file)
    assert found.users.tolist() == list(range(10))
    assert found.items.tolist() == [*"0123456", "x", "8", "9"]
    file.write_text("".join(f"{n}::{n}::{'?' if n == 7 else 3}::{n}\n" for n in range(10)))
    with pytest.raises(UserError, match="row 8"):
        load(file)


def test_an_id_does_not_change_when_another_one_is_a_word(tmp_path: Path) -> None:
    file, rows = tmp_path / "a.csv", "user,item,rating\n007,1,5\n 8, 2,4\n"
    found = []
    for text in (rows, rows + "ann,x,3\n"):
        file.write_text(text)
        columns = load(file)
        found.append(
            [list(map(str, column.tolist()[:2])) for column in (columns.users, columns.items)]
        )
    assert found == [[["007", "8"], ["1", "2"]]] * 2


@pytest.mark.parametrize("word", ["user", "item"])
@pytest.mark.parametrize("suffix", [".csv", ".dat", ".tsv", ".zip"])
def test_a_long_id_is_refused_by_its_row_before_it_takes_room(
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


def test_an_id_of_1024_characters_is_read(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text(f"user,item,rating\n{'u' * 1024},1,5\n{'v' * 1024},1,4\n")
    assert load(file).users.tolist() == ["u" * 1024, "v" * 1024]


def test_a_long_id_among_the_titles_is_no_title(tmp_path: Path) -> None:
    file = plain_csv(tmp_path)
    (tmp_path / "movies.dat").write_text(f"1::One::Drama\n{'x' * 2000}::Two::Drama\n", "latin-1")
    assert load(file).titles is None


@pytest.mark.parametrize(
    ("ratings", "scale"),
    [([1, 5], Scale(1, 5, 1)), ([2, 3, 4], Scale(1, 5, 1)), ([0, 5], Scale(0, 5, 1)),
     ([1, 7], Scale(1, 10, 1)), ([10, 100], Scale(1, 100, 1)), ([0.5, 4], Scale(0.5, 4, 0.5)),
     ([1, 4.5], Scale(0.5, 5, 0.5)), ([0, 2.5], Scale(0, 4, 0.5)), ([0.5, 9], Scale(0.5, 10, 0.5)),
     ([-9.7, 9.8], Scale(-10, 10, 2, binned=True)), ([0.03, 0.91], Scale(0, 1, 0.1, binned=True)),
     ([-3, 3], Scale(-3, 3, 0.6, binned=True)), ([4], Scale(1, 5, 1))],
    ids=str,
)  # fmt: skip
def test_the_scale_is_found_from_the_ratings(ratings: list[float], scale: Scale) -> None:
    found = find_scale(np.array(ratings, float))
    assert found == scale
    assert found.classify(np.array(ratings, float))[1].all()


def test_real_valued_ratings_are_binned_and_a_level_has_the_centre_of_its_bin(
    tmp_path: Path,
) -> None:
    file = tmp_path / "jokes.csv"
    file.write_text("user,item,rating\n1,1,-9.95\n1,2,0.05\n1,3,9.37\n")
    found = load(file)
    assert found.levels.tolist() == [0, 5, 9]
    assert found.scale.values[found.levels].tolist() == [-9.0, 1.0, 9.0]
    assert found.ratings.tolist() == [-9.95, 0.05, 9.37]


def test_ratings_off_a_given_scale_are_left_out_and_counted(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("user,item,rating\n1,1,5\n1,2,4.5\n1,3,6\n2,1,1\n")
    found = load(file, Scale(1, 5, 1))
    assert found.ratings.tolist() == [5, 1]
    assert found.items.tolist() == [1, 1]
    assert found.refused == 2
    with pytest.raises(UserError, match=r"no rating lies on the scale 10\.\.20"):
        load(file, Scale(10, 20, 1))


def test_a_short_float_is_the_decimal_that_was_put_into_it(tmp_path: Path) -> None:
    file = tmp_path / "a.npz"
    np.savez(file, user=[1, 2], item=[1, 2], rating=np.array([0.3, 0.7], np.float32))
    assert load(file, Scale(0, 1, 0.1)).levels.tolist() == [3, 7]


HEADER = "user,item,rating,timestamp\n"


@pytest.mark.parametrize(
    ("name", "content", "said"),
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
def test_what_is_no_file_of_ratings_is_refused_in_one_sentence(
    name: str, content: bytes, said: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=said) as caught:
        load(tmp_path / name)
    assert "good" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arrays", "said"),
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
        ({"user": [1], "item": [1], "rating": [5], "timestamp": [np.inf]}, "timestamps"),
    ],
    ids=str,
)
def test_arrays_that_are_no_ratings_are_refused(
    arrays: dict[str, list[object]], said: str, tmp_path: Path
) -> None:
    np.savez(tmp_path / "a.npz", **{name: np.array(column) for name, column in arrays.items()})  # type: ignore[arg-type]
    with pytest.raises(UserError, match=said):
        load(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (",2,3", "the user in row 3 is empty; give 1 to 1024 bytes"),
        ("carol,,3", "the item in row 3 is empty; give 1 to 128 bytes"),
        ("é" * 600 + ",2,3", "the user in row 3 has 1200 bytes; give 1 to 1024"),
        ("carol," + "é" * 65 + ",3", "the item in row 3 has 130 bytes; give 1 to 128"),
        ("carol\0,2,3", "the user in row 3 holds the character NUL"),
        ("carol,-7,3", "the item in row 3 is a negative number; give a number from 0"),
        ("carol,2,4.2.1", "the rating in row 3 is not a number"),
        ("carol", "row 3 has 1 fields"),
    ],
    ids=range(8),
)
def test_a_bad_row_is_named_by_file_and_row_and_never_by_its_content(
    row: str, sentence: str, tmp_path: Path
) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(f"user,item,rating\nann,1,4\n{row}\n")
    with pytest.raises(UserError) as caught:
        load(file)
    assert str(caught.value).startswith(f"{file}: {sentence}")
    for content in ("carol", "é", "-7", "4.2.1", "ann,"):
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


def test_titles_that_cannot_be_read_do_no_harm(tmp_path: Path) -> None:
    file = dat(tmp_path)
    (tmp_path / "movies.dat").write_text("no titles here\n")
    assert load(file).titles is None


@pytest.mark.parametrize("ratings", [[7.0], [1e300, 0.5], [0.0, 1e7]])
def test_ratings_that_show_no_scale_ask_for_one(ratings: list[float]) -> None:
    with pytest.raises(UserError, match="--scale"):
        find_scale(np.array(ratings))


def test_movielens_is_read_whole() -> None:
    folder = Path(os.environ.get("MURMUREC_DATA", Path(__file__).parents[2] / "../shared/data"))
    file = folder / "ml-1m" / "ml-1m.npz"
    if not file.exists():
        pytest.skip(f"MovieLens-1M is not at {file}; set MURMUREC_DATA to the folder that holds it")
    found: Dataset = load(file)
    assert (len(found), found.refused, found.scale) == (1_000_209, 0, Scale(1, 5, 1))
    assert np.bincount(found.levels).tolist() == [56_174, 107_557, 261_197, 348_971, 226_310]
    assert found.titles is not None
    assert found.titles[1] == "Toy Story (1995)"

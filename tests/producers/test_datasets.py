"""Data sets: every file format gives the same columns."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from producers.datasets import table_files as tables
from producers.datasets.load import Dataset, load
from producers.scale import Scale
from stream_app.errors import UserError
from tests.producers.conftest import dataset
from tests.producers.dataset_files import (
    ITEMS,
    RATINGS,
    TIMES,
    TITLES,
    USERS,
    archive,
    dat,
    movielens_csv,
    npz,
    plain_csv,
    udata,
)


@pytest.mark.parametrize("write", [dat, udata, movielens_csv, plain_csv, npz, archive])
def test_every_file_format_gives_the_same_rows(
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
    if write is plain_csv:
        assert found.described is None
    else:
        assert found.described is not None
        assert {item: each.title for item, each in found.described.items()} == TITLES
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
    assert found.warnings == ("a.csv: no times: the order of the file stands for the time order",)


def test_a_file_without_times_that_is_sorted_by_user_is_mixed_by_a_seed(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    rows = [(f"u{user}", item) for user in range(30) for item in range(user % 7 + 1)]
    file.write_text("user,item,rating\n" + "".join(f"{u},{i},{i % 5 + 1}\n" for u, i in rows))
    found = load(file)
    (warning,) = found.warnings
    assert "sorted by user" in warning
    order = found.in_time_order()
    users, items = order.users.tolist(), order.items.tolist()
    assert sorted(zip(users, items, strict=True)) == sorted(rows)
    assert order.ratings.tolist() == [item % 5 + 1 for item in items]
    assert order.levels.tolist() == [item % 5 for item in items]
    for user in set(users):
        own = [item for name, item in zip(users, items, strict=True) if name == user]
        assert own == list(range(len(own)))
    runs = 1 + sum(a != b for a, b in pairwise(users))
    assert runs > 80  # of 111 rows: nearly every row is of another user than the row before
    assert found.in_time_order(0).items.tolist() == items
    assert found.in_time_order(1).users.tolist() != users
    assert order.in_time_order(1) is order
    one_long = dataset([1] * 99 + [2], list(range(100)), [3.0] * 100)
    assert one_long.in_time_order().in_time_order(1).items.tolist() == (
        one_long.in_time_order().items.tolist()
    )


def test_a_file_in_which_one_user_occurs_twice_is_still_sorted_by_user() -> None:
    users: list[int | str] = [user for user in range(20) for _ in range(10)]
    items: list[int | str] = list(range(200))
    assert dataset(users, items, [3.0] * 200).in_time_order().items.tolist() != items
    again = dataset([*users[:-5], *users[:5]], items, [3.0] * 200)
    assert again.in_time_order().items.tolist() != items
    alternating = dataset([user % 20 for user in range(200)], items, [3.0] * 200)
    assert alternating.in_time_order() is alternating


def test_times_that_are_all_equal_order_nothing(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    rows = "".join(f"{row // 10},{row % 10},3,77\n" for row in range(100))
    file.write_text("user,item,rating,timestamp\n" + rows)
    found = load(file)
    assert "sorted by user" in found.warnings[0]
    assert found.in_time_order().users.tolist() != found.users.tolist()
    assert set(found.in_time_order().timestamps.tolist()) == {77}  # type: ignore[union-attr]


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


def test_an_id_does_not_depend_on_the_other_ids_of_the_file(tmp_path: Path) -> None:
    file, rows = tmp_path / "a.csv", "user,item,rating\n007,1,5\n 8,2,4\n"
    found = []
    for text in (rows, rows + "ann,x,3\n"):
        file.write_text(text)
        columns = load(file)
        found.append(
            [list(map(str, column.tolist()[:2])) for column in (columns.users, columns.items)]
        )
    assert found == [[["007", " 8"], ["1", "2"]]] * 2


def test_an_id_of_1024_characters_is_read(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text(f"user,item,rating\n{'u' * 1024},1,5\n{'v' * 1024},1,4\n")
    assert load(file).users.tolist() == ["u" * 1024, "v" * 1024]


def test_a_title_file_with_a_too_long_id_is_ignored(tmp_path: Path) -> None:
    file = plain_csv(tmp_path)
    (tmp_path / "movies.dat").write_text(f"1::One::Drama\n{'x' * 2000}::Two::Drama\n", "latin-1")
    assert load(file).described is None


def test_an_unreadable_title_file_is_ignored(tmp_path: Path) -> None:
    file = dat(tmp_path)
    (tmp_path / "movies.dat").write_text("no titles here\n")
    assert load(file).described is None


def test_movielens_is_read_completely() -> None:
    folder = Path(os.environ.get("MURMUREC_DATA", Path(__file__).parents[2] / "../shared/data"))
    file = folder / "ml-1m" / "ml-1m.npz"
    if not file.exists():
        pytest.skip(f"MovieLens-1M is not at {file}; set MURMUREC_DATA to the folder that holds it")
    found: Dataset = load(file)
    assert (len(found), found.refused, found.scale) == (1_000_209, 0, Scale(1, 5, 1))
    assert np.bincount(found.levels).tolist() == [56_174, 107_557, 261_197, 348_971, 226_310]
    assert found.described is not None
    assert found.described[1].title == "Toy Story (1995)"

"""What the public package takes as ratings, and the sentence for what it does not take."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from murmurec.ratings import columns_of, ids_of, item_keys, user_keys
from producers.scale import Scale
from stream_app import wire

FIVE = Scale(1, 5, 1)
COLUMNS = {"user": ["ann", "bob", "ann"], "item": [7, 7, 9], "rating": [5, 3, 1]}


def as_rows(ratings: Any) -> list[tuple[Any, ...]]:
    data = columns_of(ratings, FIVE)
    return list(zip(data.users.tolist(), data.items.tolist(), data.levels.tolist(), strict=True))


EXPECTED = [("ann", 7, 4), ("bob", 7, 2), ("ann", 9, 0)]


@pytest.mark.parametrize(
    "ratings",
    [
        COLUMNS,
        pd.DataFrame(COLUMNS),
        pd.DataFrame(COLUMNS).assign(note="other columns are ignored"),
        pd.DataFrame(COLUMNS).astype({"user": object, "rating": "float32"}),
        tuple(COLUMNS.values()),
        tuple(np.array(column) for column in COLUMNS.values()),
    ],
    ids=["mapping", "frame", "more columns", "objects", "tuple", "arrays"],
)
def test_every_form_gives_the_same_rows(ratings: Any) -> None:
    assert as_rows(ratings) == EXPECTED


def test_a_file_gives_the_same_rows(tmp_path: Path) -> None:
    file = tmp_path / "ratings.csv"
    pd.DataFrame(COLUMNS).assign(timestamp=[1, 2, 3]).to_csv(file, index=False)
    assert as_rows(file) == EXPECTED


def test_rows_are_put_in_the_order_of_their_times() -> None:
    assert as_rows(COLUMNS | {"timestamp": [3, 1, 2]}) == [EXPECTED[1], EXPECTED[2], EXPECTED[0]]


def test_an_index_of_another_order_does_not_move_rows() -> None:
    assert as_rows(pd.DataFrame(COLUMNS, index=[2, 0, 1])) == EXPECTED


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"rating": [5, 6, 1]}, "rating in row 1: not on the scale 1..5 by 1"),
        ({"rating": [5, 3.5, 1]}, "rating in row 1: not on the scale"),
        ({"rating": [5, float("nan"), 1]}, "rating in row 1: must be a finite number"),
        ({"rating": ["5", "x", "1"]}, "rating: not a column of numbers"),
        ({"item": [7, -1, 9]}, "item in row 1: an integer id lies in 0"),
        ({"item": [7, 2**63, 9]}, "item in row 1: an integer id lies in 0"),
        ({"item": [7.0, 8.0, 9.0]}, "item: ids of type float; give integers"),
        ({"user": ["ann", "", "bob"]}, "user in row 1: an id is not empty"),
        ({"user": ["ann", None, "bob"]}, "user: ids of type NoneType and str"),
        ({"user": [True, False, True]}, "user: ids of type bool"),
        ({"user": ["ann"]}, "columns of [1, 3] rows"),
        ({"timestamp": [1, float("inf"), 3]}, "timestamp in row 1: must be a finite number"),
        ({"user": [], "item": [], "rating": []}, "0 ratings"),
    ],
)
def test_a_bad_column_is_refused_by_row_and_without_its_user(
    change: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        columns_of(COLUMNS | change, FIVE)
    assert str(refused.value).startswith(sentence)
    assert "ann" not in str(refused.value)


@pytest.mark.parametrize("ratings", [{"user": [1], "item": [2]}, [1, 2, 3], (1, 2), 7])
def test_what_has_no_columns_is_refused(ratings: Any) -> None:
    with pytest.raises(ValueError, match=r"column|tuple"):
        columns_of(ratings, None)


def test_a_data_set_of_another_scale_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected the scale 1\.\.10"):
        columns_of(columns_of(COLUMNS, FIVE), Scale(1, 10, 1))


def test_a_file_that_is_none_is_a_value_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nothing"):
        columns_of(tmp_path / "nothing.csv", None)


def test_keys_are_those_of_the_wire() -> None:
    assert item_keys(ids_of(["b", "a", "b"], "item")).tolist() == [
        wire.key("b"),
        wire.key("a"),
        wire.key("b"),
    ]
    assert item_keys(ids_of([5, 3], "item")).tolist() == [5, 3]


def test_no_data_frame_library_is_imported() -> None:
    import subprocess

    code = "import murmurec.ratings, sys; sys.exit('pandas' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_a_user_may_have_any_number_or_text() -> None:
    keys = user_keys(np.array([-1, 5, -1]))
    assert keys[0] == keys[2] != keys[1] == 5
    assert len(set(user_keys(np.array(["a" * 500, "b"])).tolist())) == 2

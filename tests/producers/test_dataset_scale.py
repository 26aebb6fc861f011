"""The scale of a data set: given, or found from the ratings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from producers.datasets.load import find_scale, load, rare_end
from producers.scale import Scale
from stream_app.errors import UserError


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


def test_a_float32_rating_is_read_as_its_decimal(tmp_path: Path) -> None:
    file = tmp_path / "a.npz"
    np.savez(file, user=[1, 2], item=[1, 2], rating=np.array([0.3, 0.7], np.float32))
    assert load(file, Scale(0, 1, 0.1)).levels.tolist() == [3, 7]


@pytest.mark.parametrize("ratings", [[7.0], [1e300, 0.5], [0.0, 1e7]])
def test_ratings_without_a_usual_scale_need_the_option(ratings: list[float]) -> None:
    with pytest.raises(UserError, match="--scale"):
        find_scale(np.array(ratings))


@pytest.mark.parametrize(
    ("ratings", "instead", "words"),
    [
        ([1, 2, 3, 4, 5] * 1000 + [0] * 3, "--scale 1 5 1", "3 of 5,003 ratings (0.0006 of all)"),
        ([0.5, 1, 4] * 1000 + [0], "--scale 0.5 4 0.5", "is 0, which makes 9 levels instead of 8"),
        ([1, 2, 3, 4, 5] * 1000 + [7, 10], "--scale 1 5 1", "are 7 and 10, which makes 10 levels"),
        ([1, 5] * 3000 + [0, 6, 7, 8], "--scale 1 5 1", "are outside 1..5, which makes 11 levels"),
    ],
)  # fmt: skip
def test_a_few_stray_values_that_widen_the_scale_are_named(
    ratings: list[float], instead: str, words: str
) -> None:
    values = np.array(ratings, float)
    warning = rare_end(values, find_scale(values))
    assert warning is not None
    assert instead in warning
    assert words in warning


@pytest.mark.parametrize(
    "ratings",
    [
        [0, 1, 2, 3, 4, 5] * 100,
        [1, 2, 3, 4] * 1000 + [5],  # 1..5 without it, too
        [1, 2, 3, 4, 5] * 199 + [0],  # one of a thousand
        [-9.7, 0.1, 3.3] * 1000 + [9.8],
        [4] * 3000,
    ],
    ids=["common", "rare but usual", "few ratings", "bins", "constant"],
)
def test_a_scale_whose_ends_are_used_is_not_warned_about(ratings: list[float]) -> None:
    values = np.array(ratings, float)
    assert rare_end(values, find_scale(values)) is None


def test_a_file_with_stray_values_is_warned_about_unless_its_scale_is_given(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    rows = [f"{n},{n},{n % 5 + 1},{n}\n" for n in range(3000)] + ["3000,1,0,3000\n"]
    file.write_text("user,item,rating,timestamp\n" + "".join(rows))
    (warning,) = load(file).warnings
    assert warning.startswith("a.csv: 1 of 3,001 ratings (0.00033 of all) is 0, ")
    assert load(file, Scale(1, 5, 1)).warnings == ()
    assert load(file, Scale(1, 5, 1)).refused == 1

"""Genres and years of items from the files that stand beside ratings."""

from __future__ import annotations

import numpy as np
import pytest

from producers.datasets.metadata import ItemRow, columns, metadata_beside
from stream_app.errors import UserError

TOY = ItemRow(("Animation", "Comedy"), 1995)


def beside(tmp_path, name: str, text: str):
    (tmp_path / name).write_text(text, encoding="latin-1")
    return metadata_beside(tmp_path / "ratings.csv")


def test_the_forms_of_movielens_are_read(tmp_path):
    dat, table = tmp_path / "dat", tmp_path / "csv"
    dat.mkdir()
    table.mkdir()
    found = beside(dat, "movies.dat", "1::Toy Story (1995)::Animation|Comedy\n2::Untitled::Drama\n")
    assert found == {"1": TOY, "2": ItemRow(("Drama",), None)}
    text = 'movieId,title,genres\n1,"Toy, Story (1995)",Animation|Comedy\n'
    assert beside(table, "movies.csv", text) == {"1": TOY}


def test_flags_of_genres_are_read(tmp_path):
    flags = ["0"] * 19
    flags[3] = flags[5] = "1"
    found = beside(tmp_path, "u.item", "1|Toy Story (1995)|01-Jan-1995||url|" + "|".join(flags))
    assert found == {"1": ItemRow(("genre 3", "genre 5"), 1995)}


def test_arrays_are_read(tmp_path):
    np.savez(
        tmp_path / "movies.npz",
        item=np.array([7]),
        genre_names=np.array(["Action", "Drama"]),
        genres=np.array([[0, 1]], np.uint8),
        year=np.array([1990]),
    )
    assert metadata_beside(tmp_path / "ratings.npz") == {"7": ItemRow(("Drama",), 1990)}


def test_an_item_has_its_genres_and_its_year():
    rows = {"1": TOY, "2": ItemRow(("Drama",), None)}
    found = columns(rows, ["2", "1", "unknown"])
    assert found.tolist()[0] == [0, 0, 1, 0, 0]
    assert found[1] == pytest.approx([1, 1, 0, 2 / 3, 4 / 9])
    assert not found[2].any()


def test_without_metadata_there_is_a_sentence(tmp_path):
    with pytest.raises(UserError, match="no metadata of its items beside it"):
        metadata_beside(tmp_path / "ratings.csv")
    with pytest.raises(UserError, match="holds no genres"):
        beside(tmp_path, "movies.dat", "1::Toy Story\n")

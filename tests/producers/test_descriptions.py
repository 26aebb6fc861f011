"""Titles, genres and years of items from the files that stand beside ratings."""

from __future__ import annotations

import numpy as np
import pytest

from producers.catalogue_reader import entries
from producers.datasets.columns import Description
from producers.datasets.descriptions import descriptions_beside, descriptions_in
from producers.datasets.load import load
from stream_app.wire import CatalogueEntry
from tests.producers.dataset_files import archive, udata

TOY = Description("Toy Story (1995)", ("Animation", "Comedy"), 1995)


def beside(tmp_path, name: str, text: str):
    (tmp_path / name).write_text(text, encoding="latin-1")
    return descriptions_beside(tmp_path / "ratings.csv")


def test_the_forms_of_movielens_are_read(tmp_path):
    dat, table = tmp_path / "dat", tmp_path / "csv"
    dat.mkdir()
    table.mkdir()
    found = beside(dat, "movies.dat", "1::Toy Story (1995)::Animation|Comedy\n2::Untitled::Drama\n")
    assert found == {1: TOY, 2: Description("Untitled", ("Drama",), None)}
    text = 'id,title,genres\n1,"Toy, Story (1995)",Animation|Comedy\n2,B,(no genres listed)\n3,C\n'
    assert beside(table, "movies.csv", text) == {
        1: Description("Toy, Story (1995)", ("Animation", "Comedy"), 1995),
        2: Description("B"),
        3: Description("C"),
    }


def test_flags_of_genres_are_read(tmp_path):
    flags = ["0"] * 19
    flags[3] = flags[5] = "1"
    found = beside(tmp_path, "u.item", "1|Toy Story (1995)|01-Jan-1995||url|" + "|".join(flags))
    assert found == {1: TOY}
    unknown = ["1", *["0"] * 18]
    found = beside(tmp_path, "u.item", "267|unknown||||" + "|".join(unknown))
    assert found == {267: Description("unknown")}


def test_arrays_are_read(tmp_path):
    np.savez(
        tmp_path / "movies.npz",
        item=np.array([7, 8]),
        title=np.array(["Seven", "Eight (1988)"]),
        genre_names=np.array(["Action", "Drama"]),
        genres=np.array([[0, 1], [0, 0]], np.uint8),
        year=np.array([1990, 0]),
    )
    assert descriptions_beside(tmp_path / "ratings.npz") == {
        7: Description("Seven", ("Drama",), 1990),
        8: Description("Eight (1988)", (), 1988),
    }


def test_an_archive_holds_descriptions_too(tmp_path):
    found = load(archive(tmp_path)).described
    assert found == {
        10: Description("Café (1995)", ("Drama",), 1995),
        20: Description("Two: The Return (1996)", ("Comedy", "Drama"), 1996),
        30: Description("Three", ("Drama",), None),
    }
    (tmp_path / "movies.dat").unlink()
    assert load(udata(tmp_path)).described == {
        10: Description("Café (1995)", (), 1995),
        20: Description("Two: The Return (1996)", (), 1996),
        30: Description("Three"),
    }


@pytest.mark.parametrize("name", ["movies.csv", "movies.dat", "movies.npz", "u.item"])
@pytest.mark.parametrize(
    "content", [b"", b"1", b"\xff\x00", b"a,b\n\x00::|", b"PK\x03\x04", b"\x93NUMPY"]
)
def test_a_file_that_cannot_be_read_is_ignored(name, content):
    assert not descriptions_in(name, content)


def test_what_a_catalogue_cannot_hold_is_left_out():
    genres = "|".join(["", " x", "a\x1b[2J", "y" * 51, "Drama", "Drama", *map(str, range(20))])
    text = f"1::{'t' * 600} (0000)::{genres}\n"
    found = descriptions_in("movies.dat", text.encode("latin-1"))
    assert found is not None
    assert (found[1].genres, found[1].year) == (("Drama", *map(str, range(15))), None)
    (entry,) = entries([1], found)
    assert entry == CatalogueEntry(1, "t" * 500, found[1].genres)


def test_every_item_with_a_description_or_a_word_has_an_entry():
    described = {1: TOY, 2: Description(year=1990), 3: Description()}
    assert list(entries([4, "five", 1], described)) == [
        CatalogueEntry(1, "Toy Story (1995)", ("Animation", "Comedy"), 1995),
        CatalogueEntry(2, year=1990),
        CatalogueEntry("five"),
    ]

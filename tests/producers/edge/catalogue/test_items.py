"""The catalogue keeps what the site says, to a limit, and forgets what it removes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest

from producers.edge.catalogue import site_catalogue as module
from producers.edge.catalogue.site_catalogue import Catalogue, ItemRow
from producers.edge.store.database import Database
from stream_app.errors import Unwritable
from tests.producers.edge.stores import NOW, full

HOSTILE = "<script>alert(1)</script> <img src=x onerror=alert(2)>"
FULL = ItemRow(
    item="a",
    title=HOSTILE,
    categories=("Shoes", "Sport & Leisure"),
    labels=("new", "<b>"),
    attributes={"size": 42.0, "colour": "red", "vegan": False, "sizes": ("41", "42"), "empty": ""},
    price=0.0,
    year=2024,
    image="https://example.com/a.png?x=1",
    added=5,
    available=False,
    hidden=True,
)


@pytest.fixture
def catalogue(database: Database) -> Catalogue:
    return Catalogue(database)


def test_an_item_is_kept_as_it_is_written(catalogue: Catalogue):
    catalogue.put_many([FULL])
    assert catalogue.get("a") == FULL
    assert list(catalogue.snapshot().rows.values()) == [FULL]
    assert catalogue.snapshot().rows == {"a": FULL}


def test_an_item_is_replaced_whole_and_keeps_its_age(catalogue: Catalogue):
    catalogue.put_many([ItemRow(item="7", title="old", price=3.0, added=5)])
    catalogue.put_many([ItemRow(item="7", title="new")])
    assert catalogue.get("7") == ItemRow(item="7", title="new", added=5)
    catalogue.put_many([ItemRow(item="7", added=9)])
    assert catalogue.get("7") == ItemRow(item="7", added=9)
    catalogue.put_many([ItemRow(item="b")])
    found = catalogue.get("b")
    assert found is not None
    assert found.added > NOW - 365 * 86_400_000


def test_many_are_put_at_once_and_the_last_of_each_counts(catalogue: Catalogue):
    rows = [ItemRow(item=str(n % 2_500), title=str(n)) for n in range(5_000)]
    assert catalogue.put_many(rows) == 2_500
    assert [row.title for row in catalogue.snapshot().rows.values()] == [
        str(n) for n in range(2_500, 5_000)
    ]


def test_a_removed_item_is_away_and_comes_back_when_it_is_put(catalogue: Catalogue):
    catalogue.put_many([ItemRow(item="a", title="A", added=5), ItemRow(item="b", added=6)])
    first = catalogue.snapshot()
    assert catalogue.remove("a")
    assert not catalogue.remove("a")
    assert not catalogue.remove("only events name it")
    assert catalogue.get("a") is None
    assert [row.item for row in catalogue.snapshot().rows.values()] == ["b"]
    second = catalogue.snapshot()
    assert second.version > first.version
    assert (set(second.rows), second.away) == ({"b"}, {"a", "only events name it"})
    assert set(first.rows) == {"a", "b"}  # a list that is being made goes on with it
    catalogue.put_many([ItemRow(item="a")])
    assert catalogue.get("a") == ItemRow(item="a", added=5)
    assert catalogue.snapshot().away == {"only events name it"}


def test_a_snapshot_is_the_same_until_something_changes(
    catalogue: Catalogue, database: Database, monkeypatch: pytest.MonkeyPatch
):
    catalogue.put_many([ItemRow(item="a")])
    first = catalogue.snapshot()
    assert catalogue.snapshot() is first
    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.0)
    assert catalogue.snapshot() is first
    Catalogue(database).put_many([ItemRow(item="b")])  # as another edge does
    assert set(catalogue.snapshot().rows) == {"a", "b"}


def test_a_catalogue_is_there_after_a_new_start(store_path: Path):
    for expected in (None, FULL):
        with Database(f"sqlite:///{store_path}") as database:
            catalogue = Catalogue(database)
            assert catalogue.get("a") == expected
            assert catalogue.snapshot().rows == ({} if expected is None else {"a": FULL})
            catalogue.put_many([FULL])


WRONG: dict[str, dict[str, Any]] = {
    "no id": {"item": ""},
    "a long id": {"item": "i" * 129},
    "NUL in an id": {"item": "a\0"},
    "a long title": {"title": "t" * 501},
    "NUL in a title": {"title": "a\0b"},
    "half a character": {"title": "\ud800"},
    "17 categories": {"categories": tuple(map(str, range(17)))},
    "an empty category": {"categories": ("",)},
    "a category of two lines": {"categories": ("a\nb",)},
    "65 labels": {"labels": ("l",) * 65},
    "a long label": {"labels": ("l" * 501,)},
    "65 attributes": {"attributes": {f"a{n}": 1.0 for n in range(65)}},
    "an attribute's name": {"attributes": {"a b": 1.0}},
    "an attribute that is no number": {"attributes": {"a": math.nan}},
    "a long attribute": {"attributes": {"a": "x" * 501}},
    "a negative price": {"price": -1.0},
    "no price": {"price": math.inf},
    "year 0": {"year": 0},
    "year 10000": {"year": 10_000},
    "a time before 1970": {"added": -1},
    "a program as image": {"image": "javascript:alert(1)"},
    "data as image": {"image": "data:text/html,x"},
    "a quote in a link": {"image": 'https://x/" onerror="alert(1) '},
    "a long link": {"image": "https://" + "x" * 2_050},
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_an_item_beyond_the_limits_is_refused(catalogue: Catalogue, wrong: dict[str, Any]):
    row = ItemRow(**{"item": "a", **wrong})
    with pytest.raises(ValueError, match=next(iter(wrong))):
        catalogue.put_many([ItemRow(item="good"), row])
    assert catalogue.get("good") is None


def test_a_full_disk_changes_nothing(catalogue: Catalogue, database: Database):
    catalogue.put_many([FULL])
    before = catalogue.snapshot()
    rows = [msgspec.structs.replace(FULL, item=str(n), title="t" * 400) for n in range(3_000)]
    with full(database), pytest.raises(Unwritable, match="disk is full"):
        catalogue.put_many(rows)
    assert catalogue.snapshot() is before
    assert catalogue.put_many(rows) == 3_000

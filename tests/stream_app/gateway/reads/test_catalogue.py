"""The entries that a gateway serves: their order, and their bounds."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from stream_app.gateway.contract.bodies import Catalogue
from stream_app.gateway.reads import catalogue_view as catalogue
from stream_app.gateway.reads.catalogue_view import ServedCatalogue
from stream_app.ranking.item_side import ItemSide
from stream_app.wire import CatalogueEntry, Item, encode_message, key
from tests.fixtures.item_sides import item_side


def put(served: ServedCatalogue, *items: Item, **fields: Any) -> None:
    for item in items:
        entry = CatalogueEntry(item, **fields)
        served.learn(str(item).encode(), encode_message(entry))


def shown(served: ServedCatalogue) -> tuple[list[Item], int]:
    """Return the ids in their order and how many entries were left out."""
    msgspec.json.decode(served.page(), type=Catalogue)
    page = json.loads(served.page())
    return [row["item"] for row in page["items"]], page["left_out"]


def side(**popularity: float) -> ItemSide:
    """Return the side of items `i5=.2` with their popularity."""
    made = item_side(np.random.default_rng(1), len(popularity))
    keys = np.array([int(name[1:]) for name in popularity], np.uint64)
    return replace(made, keys=keys, popularity=np.array(list(popularity.values()), np.float32))


def test_an_entry_is_shown_with_all_that_the_operator_published() -> None:
    served = ServedCatalogue()
    about = {"title": 'Alien "1"', "genres": ("Horror", "Sci-Fi"), "year": 1979}
    put(served, "alien", **about)
    put(served, 1193, withdrawn=True)
    first, second = json.loads(served.page())["items"]
    assert first == {
        "item": "alien",
        "key": f"{key('alien'):016x}",
        "withdrawn": False,
        **about,
        "genres": ["Horror", "Sci-Fi"],
    }
    assert second == {
        "item": 1193,
        "key": "00000000000004a9",
        "title": "",
        "genres": [],
        "year": None,
        "withdrawn": True,
    }


def test_items_of_the_side_come_first_by_popularity_and_equal_ones_by_key() -> None:
    served = ServedCatalogue()
    put(served, 9, 8, 7, "film", 5)
    served.rank_by(side(i5=0.2, i7=0.5, i3=0.2, i9=0.1))
    assert shown(served) == ([7, 3, 5, 9, 8, "film"], 0)
    served.rank_by(side(i9=0.2))
    assert shown(served) == ([9, 8, 7, "film", 5], 0)


def test_an_item_of_the_side_without_an_entry_is_shown_where_its_number_is_its_id() -> None:
    served = ServedCatalogue()
    made = side(i3=0.2, i4=0.3)
    keys = np.array([3, key("unknown")], np.uint64)
    served.rank_by(replace(made, keys=keys))
    assert shown(served) == ([3], 0)


def test_a_later_entry_replaces_an_earlier_one_and_a_tombstone_removes_it() -> None:
    served = ServedCatalogue()
    put(served, 5, "05", "film")
    put(served, "5", title="Five")
    assert shown(served) == (["05", "film", 5], 0)
    served.learn(b"film", None)
    assert shown(served) == (["05", 5], 0)
    served.learn(b"05", None)
    assert shown(served) == ([5], 0)


def test_a_number_that_javascript_would_round_is_text() -> None:
    served = ServedCatalogue()
    put(served, 2**53 - 1, 2**53, 2**63 - 1)
    assert shown(served) == ([2**53 - 1, str(2**53), str(2**63 - 1)], 0)


def test_a_tombstone_without_a_name_changes_nothing() -> None:
    served = ServedCatalogue()
    put(served, 5)
    served.learn(b"5", b"")
    served.learn(None, None)
    served.learn(b"\xff" * 300, None)
    assert shown(served) == ([], 0)


def test_what_is_malformed_changes_nothing() -> None:
    served = ServedCatalogue()
    put(served, 5, title="Five")
    before = served.page()
    entry = encode_message(CatalogueEntry(5, title="Six"))
    for record_key, value in (
        (b"6", entry),
        (None, entry),
        (b"5", entry[:-1]),
        (b"5", entry.replace(b'"v":1', b'"v":2')),
        (b"5", b"\xff\x00"),
        (b"5", b"[" * 100_000),
    ):
        served.learn(record_key, value)
    assert served.page() == before


def test_beyond_the_bound_entries_are_counted_and_those_of_the_side_are_kept() -> None:
    served = ServedCatalogue(most_entries=4)
    served.rank_by(side(i90=0.5, i91=0.6))
    put(served, *range(10), 90, 91)
    assert shown(served) == ([91, 90, 0, 1], 8)
    assert not served.lacking
    put(served, 9, title="again, and left out again")
    served.learn(b"8", None)
    assert shown(served) == ([91, 90, 0, 1], 7)
    served.learn(b"0", None)
    assert shown(served) == ([91, 90, 1, 2], 6)


def test_reading_again_is_due_once_there_is_room_or_the_side_names_what_was_left_out() -> None:
    served = ServedCatalogue(most_entries=4)
    put(served, *range(6))
    assert not served.lacking
    served.rank_by(side(i5=0.5))
    assert served.lacking
    served.restart()
    put(served, *range(6))
    assert not served.lacking
    assert shown(served) == ([5, 0, 1, 2], 2)
    for item in (b"0", b"1"):
        served.learn(item, None)
    assert served.lacking
    served.restart()
    put(served, *range(2, 6))
    assert not served.lacking


def test_the_bytes_are_bounded_too() -> None:
    served = ServedCatalogue(most_bytes=1000)
    put(served, *range(10), title="t" * 500)
    assert len(served.page()) < 1000
    items, left_out = shown(served)
    assert items == [0]
    assert left_out == 9
    assert not served.lacking
    put(served, 0, title="short")
    assert shown(served) == ([0], 9)
    assert served.lacking


def test_the_count_of_what_is_left_out_has_a_bound_as_well(monkeypatch: Any) -> None:
    monkeypatch.setattr(catalogue, "MOST_KEYS", 3)
    served = ServedCatalogue(most_entries=2)
    put(served, *range(10))
    assert shown(served) == ([0, 1], 3)
